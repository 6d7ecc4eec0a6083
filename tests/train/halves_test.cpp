// --halves: two halves of a micro-batch that take turns.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/hosts_backend.hpp"
#include "tests/support/random_task.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

/// The losses, and in the end the weights of this rank.
struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
};

Trained trained(const Configuration& c, const Communicator& world) {
  const auto task = random_task(c, 12, [](int64_t i) { return 3 + i % 7; });
  Trainer trainer(c, *task, world);
  trainer.initialize();
  Trained result;
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < c.batch; ++i) samples.push_back((step * 5 + i) % task->size(data::Part::train));
    result.losses.push_back(trainer.step(samples, step, 1e-2).loss);
  }
  for (const nn::Parameter& parameter : trainer.parameters()) result.weights.push_back(parameter.tensor.detach());
  return result;
}

/// Where all groups are as between hosts, halves do take turns, also on threads.
void expect_bits_of_micro_batches(Configuration c, const Communicator& world) {
  c.halves = true;
  const Trained halves = trained(c, world), apart = trained(c, between_hosts(world));
  c.halves = false;
  c.microbatches *= 2;
  const Trained expected = trained(c, world);
  for (const Trained* found : {&halves, &apart}) {
    EXPECT_EQ(found->losses, expected.losses);
    for (size_t i = 0; i < expected.weights.size(); ++i)
      EXPECT_TRUE(at::equal(found->weights[i], expected.weights[i])) << i;
  }
}

TEST(Halves, have_the_bits_of_twice_the_micro_batches) {
  for (const char* preset : {"tiny", "gpt-tiny"})
    for_each_world({2, 4}, [&](const Communicator& world) {
      for (int tp = 2; tp <= world.size(); tp *= 2) {
        if (world.size() % tp != 0) continue;
        Configuration c = configuration_of(preset);
        c.sequence = 12, c.vocabulary_size = 40, c.batch = 8, c.heads = 4, c.dropout = 0.1;
        c.tp = tp, c.dp = world.size() / tp;
        for (const bool sp : {false, true})
          for (const int64_t micro_batches : {1, 2}) {
            c.sp = sp;
            c.microbatches = micro_batches;
            c.precision = sp == (micro_batches == 2) ? Precision::fp32 : Precision::bf16;
            c.recompute = sp && micro_batches == 2 ? Recompute::segment : Recompute::none;
            SCOPED_TRACE(std::string(preset) + (sp ? ", sp, tp " : ", tp ") + std::to_string(tp) + ", micro-batches " +
                         std::to_string(micro_batches));
            expect_bits_of_micro_batches(c, world);
          }
      }
    });
}

TEST(Halves, of_experts_and_split_samples_have_the_bits_of_twice_the_micro_batches) {
  for_each_world({4}, [&](const Communicator& world) {
    if (world.size() != 4) return;
    Configuration c = configuration_of("gpt-tiny");
    c.sequence = 12, c.batch = 8, c.tp = 2, c.heads = 4;
    for (const char* method : {"ring", "ulysses", "gathered"}) {
      set("cp_method", method, c);
      c.cp = 2, c.dp = 1;
      SCOPED_TRACE(method);
      expect_bits_of_micro_batches(c, world);
    }
    c.cp = 1, c.dp = c.ep = 2, c.experts.count = 4;
    expect_bits_of_micro_batches(c, world);
  });
}

TEST(Halves, are_refused_by_name_where_they_cannot_be) {
  const auto refusal = [](auto change) {
    Configuration c = configuration_of("tiny");
    c.halves = true;
    c.tp = 2;
    change(c);
    return thrown_by<InvalidArgument>([&] { validate(c); });
  };
  EXPECT_THAT(refusal([](Configuration& c) { c.tp = 1; }), HasSubstr("--halves with --tp 1"));
  EXPECT_THAT(refusal([](Configuration& c) { c.pp = 2; }), HasSubstr("--halves with --pp 2"));
  EXPECT_THAT(refusal([](Configuration& c) { c.zero = 2; }), HasSubstr("--halves with --zero 2"));
  EXPECT_THAT(refusal([](Configuration& c) { c.zero = 3; }), HasSubstr("--halves with --zero 3"));
  EXPECT_THAT(refusal([](Configuration& c) { c.pipeline = "gpipe"; }), HasSubstr("--halves with --pipeline gpipe"));
  EXPECT_THAT(refusal([](Configuration& c) { c.batch = 7, c.microbatches = 4; }), HasSubstr("in --halves"));
}

}  // namespace
}  // namespace adjoin::train
