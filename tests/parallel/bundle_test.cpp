#include "adjoin/parallel/bundle.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/parallel/pipeline.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/schedules.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel::bundles {
namespace {

using namespace adjoin::testing;
using pipeline::Schedule;

constexpr int64_t kFeatures = 3, kWords = 5;

/// Of one stage; the first one's is also the table.
at::Tensor weight_of(int stage) {
  const int64_t rows = stage == 0 ? kWords : kFeatures;
  return at::arange(rows * kFeatures, at::kDouble).add(stage).sin().view({rows, kFeatures}).requires_grad_();
}

/// Micro-batches of other sizes, also of no rows.
at::Tensor ids_of(int micro_batch) {
  return (at::arange(micro_batch % 4) * 3 + micro_batch).remainder(kWords);
}

/// The first stage looks words up. Each later one reads the words' rows too, and a mask, and changes x in place; the loss reads the
/// words' numbers. So the rows have one use in each stage, and a mask and numbers, without gradients, are only passed on.
Bundle run_stage(int stage, int micro_batch, const Bundle& in, const at::Tensor& weight) {
  if (stage == 0) {
    const at::Tensor ids = ids_of(micro_batch), rows = weight.index_select(0, ids);
    return {{"x", rows.sin()},
            {"rows", rows},
            {"mask", ids.gt(1).unsqueeze(1)},
            {"ids", ids},
            {"scale", at::full({}, 0.5, at::kDouble)}};
  }
  EXPECT_EQ(in.size(), 5);
  EXPECT_FALSE(in["scale"].requires_grad());
  at::Tensor x = in["x"];
  x.mul_(in["scale"]).add_(in["rows"]);
  return in.with("x", at::mm(x, weight).tanh().masked_fill(in["mask"], 0.25));
}
at::Tensor loss_of(const Bundle& output) {
  return (output["x"].square().sum(1) * output["ids"].add(1)).sum();
}
BundleSpec said(int, int micro_batch) {
  const int64_t rows = ids_of(micro_batch).size(0);
  return {{"x", {rows, kFeatures}},
          {"rows", {rows, kFeatures}},
          {"mask", {rows, 1}, at::kBool},
          {"ids", {rows}, at::kLong},
          {"scale", {}, at::kDouble, false}};
}

struct Trained {
  double loss = 0;
  std::vector<at::Tensor> gradients = {};
};

Trained on_one_worker(int stages, int micro_batches) {
  std::vector<at::Tensor> weights;
  for (int stage = 0; stage < stages; ++stage) weights.push_back(weight_of(stage));
  Trained trained;
  for (int i = 0; i < micro_batches; ++i) {
    Bundle x;
    for (int stage = 0; stage < stages; ++stage) x = run_stage(stage, i, x, weights[static_cast<size_t>(stage)]);
    const at::Tensor loss = loss_of(x);
    loss.backward();
    trained.loss += loss.item<double>();
  }
  for (const at::Tensor& weight : weights) trained.gradients.push_back(weight.grad());
  return trained;
}

void expect_as_on_one_worker(const Schedule& schedule, const Communicator& ranks, bool says_sizes) {
  std::vector<at::Tensor> weights;
  for (int stage = 0; stage < schedule.stages; ++stage) weights.push_back(weight_of(stage));
  double found = 0;
  PipelineWork work{.forward =
                        [&](int stage, int micro_batch, const Bundle& in) {
                          return run_stage(stage, micro_batch, in, weights[static_cast<size_t>(stage)]);
                        },
                    .loss =
                        [&](int, const Bundle& output) {
                          const at::Tensor loss = loss_of(output);
                          found += loss.item<double>();
                          return loss;
                        },
                    .output = at::kDouble};
  if (says_sizes) work.output_shape = said;
  run_pipeline(schedule, ranks, work);
  const Trained expected = on_one_worker(schedule.stages, schedule.micro_batches);
  if (schedule.rank_of.back() == ranks.rank()) {
    EXPECT_NEAR(found, expected.loss, 1e-12 * (1 + expected.loss));
  }
  for (size_t stage = 0; stage < weights.size(); ++stage) {
    const bool is_here = schedule.rank_of[stage] == ranks.rank();
    EXPECT_LT(largest_error(weights[stage].grad(), is_here ? expected.gradients[stage] : at::Tensor()), 1e-12) << stage;
  }
}

TEST(Bundle, of_tensors_with_and_without_gradients_trains_as_one_worker_does) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const std::string_view name : pipeline::schedule_names())
      for (const int chunks : {1, 2})
        for (const bool says_sizes : {true, false})
          if (chunks == 1 || pipeline::has_chunks(name))
            expect_as_on_one_worker(pipeline::make_schedule(name, world.size(), 6, chunks), world, says_sizes);
  });
}

TEST(Bundle, never_hangs_whatever_the_order) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Schedule schedule = random_schedule(seed);
    launch_threads(schedule.ranks(),
                   [&](const Communicator& world) { expect_as_on_one_worker(schedule, world, seed % 2 == 0); });
  }
}

/// What a rank says where the stages give and expect these.
std::string refusal(const Bundle& given, const BundleSpec& expected) {
  return failure_of<InvalidArgument>(2, [&](const Communicator& world) {
    const PipelineWork work{
        .forward = [&](int stage, int, const Bundle& in) { return stage == 0 ? given : Bundle(in["mask"]); },
        .loss = [](int, const at::Tensor& output) { return output.sum(); },
        .output_shape = [&](int, int) { return expected; }};
    run_pipeline(pipeline::make_schedule("1f1b", 2, 1), world, work);
  });
}

TEST(Bundle, says_which_tensor_is_not_what_the_next_stage_expects) {
  const at::Tensor x = at::ones({2, 3}), mask = at::ones({2}, at::kBool);
  const auto expect_says = [](const std::string& said, const std::string& words) {
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  expect_says(refusal({{"x", x}, {"mask", mask}}, {{"x", {2, 3}}, {"mask", {4}, at::kBool}}),
              R"(stage 0 gives "mask" [2] Bool, and stage 1 expects "mask" [4] Bool)");
  expect_says(refusal({{"x", x}}, {{"x", {2, 3}}, {"mask", {2}, at::kBool}}),
              R"(stage 0 gives no more tensors, and stage 1 expects "mask" [2] Bool)");
  expect_says(refusal({{"x", x}, {"mask", mask}}, {{"x", {2, 3}}, {"memory", {2}, at::kBool}}),
              R"(stage 0 gives "mask" [2] Bool, and stage 1 expects "memory" [2] Bool)");
  expect_says(refusal(x.to(at::kDouble), std::vector<int64_t>{2, 3}),
              "stage 0 gives a tensor [2, 3] Double, and stage 1 expects a tensor [2, 3] Float");
  expect_says(refusal({{"mask", at::ones({2}).requires_grad_()}}, {{"mask", {2}, at::kFloat, false}}),
              R"(stage 0 gives "mask" [2] Float, which requires a gradient, and stage 1 expects one that does not)");
  expect_says(refusal({{"x", x}}, {{"x", {2, 3}}}), R"(bundle: expected a tensor "mask", got "x")");
}

TEST(Bundle, is_a_tensor_where_it_has_one) {
  const at::Tensor x = at::ones({2});
  const at::Tensor& same = Bundle(x);
  EXPECT_TRUE(same.is_same(x));
  EXPECT_FALSE(static_cast<const at::Tensor&>(Bundle()).defined());
  EXPECT_EQ(Bundle(at::Tensor()).size(), 0);
  const Bundle two{{"x", x}, {"y", x}};
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { static_cast<void>(static_cast<const at::Tensor&>(two)); }),
            R"(bundle: expected a single tensor, got "x", "y")");
  EXPECT_EQ(thrown_by<InvalidArgument>([&] {
              Bundle{{"x", x}, {"x", x}};
            }),
            R"(bundle: expected each name once, got "x", "x")");
}

}  // namespace
}  // namespace adjoin::parallel::bundles
