#include <gtest/gtest.h>

#include "adjoin/nn/expert_tokens.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "tests/support/seen_steps.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::plan {

using namespace train;
namespace {

using namespace adjoin::testing;

Configuration with_experts(const std::string& model, Precision precision) {
  Configuration c = large(model, precision);
  c.experts.count = 8;
  return c;
}

/// Of equally many rows on all ranks, all experts get equally many of each rank's, as the plan has it.
Seen seen_with_even_experts(const Configuration& c, const Task& task, const Communicator& world) {
  const nn::AssumedExperts assumed(nn::AssumedExperts::Spread::even, /*alone=*/false);
  return seen_in_a_step(c, task, world);
}

TEST(PlanOfExperts, tells_calls_and_within_a_tenth_memory_where_routing_is_even) {
  for (const auto& [model, precision] : {std::pair("classifier", Precision::fp32), {"decoder", Precision::bf16}})
    for_each_world({1, 2, 4}, [&, model = model, precision = precision](const Communicator& world) {
      for (const int ep : {1, 2, 4}) {
        Configuration c = with_experts(model, precision);
        c.tp = world.size() == 4 && ep < 4 ? 2 : 1;
        c.dp = world.size() / c.tp;
        if (c.dp % ep != 0) continue;
        c.ep = ep;
        c.zero = 1 + ep % 3;
        c.recompute = ep == 2 ? Recompute::segment : Recompute::none;
        const std::unique_ptr<Task> task =  // equally long ones of a classifier
            c.is_decoder() ? task_of(c) : random_task(c, c.batch, [&](int64_t) { return c.sequence; });
        const RankPlan plan = planned(c, *task, world);
        const Seen seen = seen_with_even_experts(c, *task, world);
        const std::string what = std::string(model) + " on " + grid_sizes(c).to_string();
        EXPECT_EQ(plan.parameters, seen.parameters) << what;
        EXPECT_EQ(text_of(plan.calls), text_of(seen.calls)) << what;
        EXPECT_NEAR(static_cast<double>(plan.highest) / static_cast<double>(seen.peak), 1, 0.1)
            << what << ", " << seen.peak << " bytes";
      }
    });
}

TEST(PlanOfExperts, tells_of_a_rank_that_gets_all_rows) {
  Configuration c = with_experts("decoder", Precision::fp32);
  c.dp = c.ep = 4;
  const std::unique_ptr<Task> task = task_of(c);
  const std::vector<int64_t> samples = all_samples(*task);
  const RankPlan even = plan_step(c, *task, samples).front(),
                 most = plan_step(c, *task, samples, nn::AssumedExperts::Spread::here).front();
  // Four times as many rows of 6 h and more for each of two experts: inputs, hidden features and their activations.
  const auto rows = static_cast<double>(c.batch * c.sequence / 4 * 2), more = 3 * rows * 4 * 10 * 128 * c.layers;
  EXPECT_GT(static_cast<double>(most.highest - even.highest), 0.8 * more);
}

StepResult step_of_one_worker(Configuration c, const Task& task) {
  c.dp = c.ep = 1;
  Trainer trainer(c, task, Communicator());
  trainer.initialize();
  return trainer.step(all_samples(task), 0, c.lr);
}

TEST(Experts, are_told_by_a_step_and_an_evaluation) {
  for_each_world({1, 2, 4}, [](const Communicator& world) {
    Configuration c = with_experts("decoder", Precision::fp64);
    c.hidden = 32;
    c.experts.every = 2;  // the second of three blocks
    c.dp = world.size();
    c.ep = world.size() / 2 * 2 == world.size() ? 2 : 1;
    const std::unique_ptr<Task> task = task_of(c);
    Trainer trainer(c, *task, world);
    trainer.initialize();
    const StepResult step = trainer.step(all_samples(*task), 0, c.lr, /*loss_scale=*/64);
    const auto value = [](const std::vector<Measure>& measures, const std::string& name) {
      const auto found = std::ranges::find(measures, name, &Measure::name);
      return found == measures.end() ? -1 : found->value;
    };
    EXPECT_GE(value(step.measures, "fullest_expert"), 1);
    EXPECT_LE(value(step.measures, "fullest_expert"), 4);
    EXPECT_GT(value(step.measures, "balance_loss"), 0.9) << "which is 1 where all is even";
    EXPECT_LT(value(step.measures, "balance_loss"), 4);
    EXPECT_GT(value(step.measures, "z_loss"), std::pow(std::log(8), 2)) << "as the mean score is about 0";
    const StepResult expected = step_of_one_worker(c, *task);
    for (const Measure& measure : expected.measures)
      EXPECT_NEAR(value(step.measures, measure.name), measure.value, 1e-9 * measure.value) << measure.name;
    const Evaluation evaluation = trainer.evaluate(data::Part::test);
    ASSERT_EQ(evaluation.expert_rows.size(), 1u);
    const std::vector<int64_t>& rows = evaluation.expert_rows.at("block1");
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), int64_t{0}), 2 * c.batch * c.sequence)
        << "two experts of each token of the test documents";
    EXPECT_EQ(value(evaluation.measures, "balance_loss"), -1);
  });
}

}  // namespace
}  // namespace adjoin::plan
