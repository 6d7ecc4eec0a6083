#include <gtest/gtest.h>

#include <string>

#include "tests/bench/layouts.hpp"

namespace adjoin::test {
namespace {

TEST(BenchLayouts, checks_what_it_is_asked_for) {
  expect_refused(run_layouts("moves --ranks 0"), "--ranks is 0, expected 1 to 1024");
  expect_refused(run_layouts("moves --ranks ''"), "--ranks is empty, expected a whole decimal number");
  expect_refused(run_layouts("moves --rows 0"), "--rows is 0, expected 1 to ");
  expect_refused(run_layouts("moves --rows 65536 --columns 65537"),
                 "--rows 65536 times --columns 65537 is more than 4294967296");
  expect_refused(run_layouts("moves --ranks 3", 2), "--ranks is 3, the MPI job has 2", /*under_mpirun=*/true);
  expect_refused(run_layouts("attention --method rings"),
                 "--method is rings, expected ring, ulysses, gathered or local");
  for (const std::string given : {"1", "1.5", "nan", "inf"})
    expect_refused(run_layouts("attention --dropout " + given),
                   "--dropout is " + given + ", expected 0 or more and less than 1");
  expect_refused(run_layouts("attention --length 65536 --heads 256 --dim 257"),
                 "--length 65536 times --heads 256 times --dim 257 is more than 4294967296");
  expect_refused(run_layouts("attention --method local --ranks 2"), "--ranks is 2, expected 1 for --method local");
  expect_refused(run_layouts("attention --method local", 2), "--method local takes one rank, the MPI job has 2",
                 /*under_mpirun=*/true);
  expect_refused(run_layouts("attention --method local --dropout 0.1"),
                 "--dropout is given, but --method local has none");
  expect_refused(run_layouts("layers --layer cnn"),
                 "--layer is cnn, expected all, conv, max-pool, batch-norm, upsample, linear or network");
  expect_refused(run_layouts("layers --cut depth"), "--cut is depth, expected batch, channels, height or width");
  expect_refused(run_layouts("layers --size 1"), "--size is 1, expected 2 to 65536");
  expect_refused(run_layouts("layers --batch 4294967296"),
                 "--batch 4294967296 times --channels 64 is more than 4294967296");
  expect_refused(run_layouts("matmul --product tt"), "--product is tt, expected nt, nn or tn");
  for (const std::string given : {"0", "Auto", "1e3"})
    expect_refused(run_layouts("matmul --chunk " + given),
                   "--chunk is " + given + ", expected auto or 1 to 4294967296");
  expect_refused(run_layouts("matmul --chunk ''"), "--chunk is empty, expected auto or 1 to 4294967296");
  expect_refused(run_layouts("matmul --length 65536 --dim 65537"),
                 "--length 65536 times --dim 65537 is more than 4294967296");
  expect_refused(run_layouts("matmul --ranks 3", 2), "--ranks is 3, the MPI job has 2", /*under_mpirun=*/true);
}

}  // namespace
}  // namespace adjoin::test
