#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "adjoin/plan/step_plan.hpp"

namespace adjoin::plan {
namespace {

TEST(PrintPlan, joins_ranks_that_are_alike) {
  const RankPlan first{.rank = 0,
                       .rows = 8,
                       .parameters = 1'000'000,
                       .weights = 4 << 20,
                       .gradients = 4 << 20,
                       .moments = 8 << 20,
                       .activations = 3 << 19,
                       .highest = 35 << 19,
                       .calls = {{Collective::all_reduce, 4, 1 << 20}, {Collective::all_reduce, 4, 1 << 20}}};
  RankPlan second = first, third = first;
  second.rank = 1;
  third.rank = 2;
  third.calls.push_back({Collective::all_gather, 2, 1 << 19});
  third.calls.push_back({std::nullopt, 2, 1 << 19, /*span=*/2, /*messages=*/2});  // keys and values
  second.highest = 36 << 19;
  second.checkpoint_copies = 11 << 20;
  std::ostringstream out;
  print_plan(out, std::vector<RankPlan>{first, second, third});
  EXPECT_EQ(out.str(),
            "\nmemory of a rank's tensors in a step, to within a tenth, in MiB\n"
            "  ranks  parameters  weights  gradients  moments  activations  highest\n"
            "  0, 1    1,000,000      4.0        4.0      8.0          1.5     18.0\n"
            "  2       1,000,000      4.0        4.0      8.0          1.5     17.5\n"
            "  and 11.0 more while a checkpoint is written, or none with --save wait\n"
            "\ncollective operations of a step, and what a rank gives to all of them, in MiB\n"
            "  ranks   operation  ranks in it  calls  bytes given\n"
            "  0, 1   all_reduce            4      2          2.0\n"
            "  2        messages            2      2          0.5\n"
            "         all_gather            2      1          0.5\n"
            "         all_reduce            4      2          2.0\n");
}

TEST(PrintPlan, is_80_columns_wide_however_many_and_large_the_ranks_are) {
  std::vector<RankPlan> ranks;
  for (int rank = 0; rank < 900; ++rank)
    ranks.push_back({.rank = rank,
                     .parameters = 900'000'000'000 + rank % 3,
                     .weights = int64_t{1} << 42,
                     .gradients = int64_t{1} << 42,
                     .moments = int64_t{1} << 43,
                     .activations = int64_t{1} << 44,
                     .highest = int64_t{1} << 45,
                     .calls = {{Collective::reduce_scatter, 900, int64_t{1} << 42}}});
  std::ostringstream out;
  print_plan(out, ranks);
  EXPECT_NE(out.str().find("  0 3 .. 897 "), std::string::npos) << out.str();
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace adjoin::plan
