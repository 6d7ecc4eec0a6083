#include "adjoin/plan/step_plan.hpp"

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/support/configurations.hpp"
#include "tests/support/random_task.hpp"
#include "tests/support/seen_steps.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

using namespace adjoin::testing;

const char* name(Precision precision) {
  return std::array{"fp64", "fp32", "bf16", "fp16"}[static_cast<size_t>(precision)];
}

/// fp32 and bf16 by turns: a case for each model and each value of something else has each value in both precisions.
Precision in_turn(std::string_view model, int value) {
  return (value + (model == "decoder" || model == "bert")) % 2 == 0 ? Precision::fp32 : Precision::bf16;
}

/// Every part that calls something.
Configuration uneven_sizes(const std::string& model, Precision precision) {
  Configuration c = testing::uneven(model);
  c.precision = precision;
  c.hidden = 35;
  c.sequence = 12;
  c.positions = models::TransformerOptions::Positions::learned;
  return c;
}

/// On so many ranks: each grid, with split rows where there are several along tp; by turns each method of context
/// parallelism, and with and without recomputation.
std::vector<Configuration> layouts_of(const Configuration& base, int ranks) {
  std::vector<Configuration> layouts;
  for (int tp = 1; tp <= ranks; ++tp)
    for (int cp = 1; cp * tp <= ranks; ++cp)
      for (const bool sp : {false, true}) {
        if (ranks % (cp * tp) != 0 || (sp && tp == 1)) continue;
        layouts.push_back(base);
        Configuration& c = layouts.back();
        c.dp = ranks / (cp * tp);
        c.cp = cp;
        c.tp = tp;
        c.sp = sp;
        constexpr const char* kMethods[] = {"ring", "ulysses", "gathered"};
        set("cp_method", kMethods[(cp + 2 * tp + sp) % 3], c);
        c.recompute = (cp + sp) % 2 == 0 ? Recompute::none : Recompute::segment;
        c.zero = (cp + 2 * tp + sp) % 4;
      }
  const auto count = layouts.size();  // each with a pipeline where dp has the ranks for it
  for (size_t i = 0; i < count; ++i) {
    if (layouts[i].dp == 1) continue;
    layouts.push_back(layouts[i]);
    Configuration& c = layouts.back();
    std::swap(c.dp, c.pp);
    constexpr const char* kSchedules[] = {"1f1b", "zb-h1", "gpipe"};
    c.pipeline = kSchedules[i % 3];
    c.microbatches = 3;
  }
  return layouts;
}

TEST(PlanStep, tells_what_each_rank_then_calls) {
  for (const char* model : {"classifier", "decoder"})
    for (const Precision precision :
         {Precision::fp32, model == std::string("classifier") ? Precision::fp64 : Precision::bf16})
      for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
        for (Configuration c : layouts_of(uneven_sizes(model, precision), world.size())) {
          if (c.pp == 1) c.microbatches = 1 + world.size() % 2;
          if (precision == Precision::fp32) c.optimizer = OptimizerRule::muon;
          const std::unique_ptr<Task> task = task_of(c);
          const RankPlan plan = planned(c, *task, world);
          const Seen seen = seen_in_a_step(c, *task, world);
          EXPECT_EQ(plan.parameters, seen.parameters);
          EXPECT_EQ(text_of(plan.calls), text_of(seen.calls))
              << model << " in " << name(precision) << " on " << grid_sizes(c).to_string() << " "
              << text_of("cp_method", c) << " " << text_of("recompute", c);
        }
      });
}

TEST(PlanStep, tells_within_a_tenth_how_much_memory_micro_batches_need) {
  for (const char* model : {"classifier", "decoder", "narrow decoder", "bert", "llama"})
    for (const int tp : {1, 2})
      for (const int microbatches : {1, 4}) {
        Configuration c = large(model, in_turn(model, tp + microbatches / 2));
        c.tp = tp;
        c.microbatches = microbatches;
        const std::unique_ptr<Task> task = task_of(c);
        const auto plans = plan_step(c, *task, all_samples(*task));
        for_each_world({tp}, [&](const Communicator& world) {
          if (world.size() != tp) return;
          const auto highest = static_cast<double>(plans.at(static_cast<size_t>(world.rank())).highest);
          const auto peak = static_cast<double>(seen_in_a_step(c, *task, world).peak);
          EXPECT_NEAR(highest / peak, 1, 0.1) << model << " in " << name(c.precision) << ", tp " << tp << ", "
                                              << microbatches << " micro-batches, " << peak << " bytes";
        });
      }
}

TEST(PlanStep, tells_within_a_tenth_how_much_memory_split_rows_and_recomputation_need) {
  for (const char* model : {"classifier", "decoder"})
    for_each_world({1, 2, 4}, [&](const Communicator& world) {
      bool recomputes = model == std::string("decoder");  // each layout of one model, and not of the other
      for (Configuration c : layouts_of(large(model, Precision::fp32), world.size())) {
        if (c.pp > 1) continue;  // below, of models that are large beside what waits to be taken
        c.recompute = recomputes ? Recompute::segment : Recompute::none;
        recomputes = !recomputes;
        c.precision = in_turn(model, recomputes);
        const std::unique_ptr<Task> task = task_of(c);
        const RankPlan plan = planned(c, *task, world);
        const auto peak = static_cast<double>(seen_in_a_step(c, *task, world).peak);
        EXPECT_NEAR(static_cast<double>(plan.highest) / peak, 1, 0.1)
            << model << " in " << name(c.precision) << ", " << grid_sizes(c).to_string() << " by "
            << text_of("cp_method", c) << ", recomputes " << text_of("recompute", c) << ", " << peak << " bytes";
      }
    });
}

TEST(PlanStep, tells_what_the_update_by_muon_needs) {
  for (const char* model : {"classifier", "decoder"})
    for (const Precision precision : {Precision::fp64, Precision::bf16})
      for_each_world({1, 2, 4}, [&](const Communicator& world) {
        Configuration c = large(model, precision);
        c.optimizer = OptimizerRule::muon;
        c.batch = 4;
        c.sequence = 8;  // the update needs more memory than the activations
        c.tp = world.size() == 4 ? 2 : 1;
        c.dp = world.size() / c.tp;
        const std::unique_ptr<Task> task = task_of(c);
        const RankPlan plan = planned(c, *task, world);
        const Seen seen = seen_in_a_step(c, *task, world);
        EXPECT_EQ(text_of(plan.calls), text_of(seen.calls)) << model;
        EXPECT_NEAR(static_cast<double>(plan.highest) / static_cast<double>(seen.peak), 1, 0.02)
            << model << " in " << name(precision) << ", dp " << c.dp << ", " << seen.peak << " bytes";
        Trainer trainer(c, *task, world);
        EXPECT_EQ(plan.moments, trainer.optimizer().moment_bytes()) << model;
      });
}

TEST(PlanStep, tells_within_a_tenth_how_much_memory_pipelines_need) {
  for (const char* model : {"classifier", "decoder"})
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1"})
      for_each_world({model == std::string("classifier") ? 2 : 4}, [&](const Communicator& world) {
        if (world.size() < 2) return;
        Configuration c = large(model, in_turn(model, std::string(schedule).size() % 2));
        c.layers = 8;  // so that each rank has a block, beside which what it sends is little
        c.pp = world.size();
        c.pipeline = schedule;
        c.chunks = c.pipeline == "interleaved" ? 2 : 1;
        c.microbatches = 4;
        const std::unique_ptr<Task> task = task_of(c);
        const RankPlan plan = planned(c, *task, world);
        const auto peak = static_cast<double>(seen_in_a_step(c, *task, world).peak);
        EXPECT_NEAR(static_cast<double>(plan.highest) / peak, 1, 0.1)
            << model << " in " << name(c.precision) << ", rank " << world.rank() << " of " << c.pp << " by " << schedule
            << ", " << peak << " bytes";
      });
}

/// Gradients of a weight that two segments of a stage name are summed over ranks once, postponed or not, if none is recomputed.
TEST(PlanStep, knows_how_often_gradients_of_shared_shards_are_summed) {
  for (const char* schedule : {"1f1b", "zb-h1"})
    for (const char* recompute : {"none", "segment"})
      for_each_world({2, 4}, [&](const Communicator& world) {
        Configuration c = uneven_sizes("decoder", Precision::fp32);
        c.dp = 2;
        c.tp = world.size() / 2;
        c.zero = 3;
        c.pipeline = schedule;
        set("recompute", recompute, c);
        c.microbatches = 2;
        if (grid_sizes(c).ranks() != world.size()) return;
        const std::unique_ptr<Task> task = task_of(c);
        EXPECT_EQ(text_of(planned(c, *task, world).calls), text_of(seen_in_a_step(c, *task, world).calls))
            << schedule << ", recomputes " << recompute;
      });
}

TEST(PlanStep, tells_that_a_fixed_order_moves_as_many_bytes_where_ranks_hold_whole_parts) {
  for (const char* model : {"bert", "llama"})
    for (const bool along_tp : {false, true})
      for (const int zero : {0, 3}) {
        Configuration c = large(model, zero % 2 == 0 ? Precision::fp32 : Precision::bf16);
        c.words = 6000;  // rows of which move
        (along_tp ? c.tp : c.dp) = 2;
        c.sp = along_tp && zero == 3;
        c.zero = zero;
        const std::unique_ptr<Task> task = task_of(c);
        const auto bytes = [&] {
          int64_t bytes = 0;
          for (const RankPlan& rank : plan_step(c, *task, all_samples(*task)))
            for (const PlannedCall& call : rank.calls) bytes += call.bytes;
          return bytes;
        };
        const int64_t as_ever = bytes();
        c.same_bits = "on";
        EXPECT_NEAR(static_cast<double>(bytes()) / static_cast<double>(as_ever), 1, 5e-3)  // rows of norms
            << model << " on " << grid_sizes(c).to_string() << ", zero " << zero;
      }
}

TEST(PlanStep, knows_schedules_whose_backward_has_two_parts_here_and_one_there) {
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "mixed.csv").string();
  std::string table = "0F0,0I0,0W0";
  for (int i = 1; i < 8; ++i) table += ",0F" + std::to_string(i) + ",0B" + std::to_string(i);
  std::ofstream(file) << table << "\n";
  Configuration c = large("classifier", Precision::fp32);
  c.pipeline = file;
  c.microbatches = 8;
  const std::unique_ptr<Task> task = task_of(c);
  const auto plan = plan_step(c, *task, all_samples(*task)).front();
  const auto peak = static_cast<double>(seen_in_a_step(c, *task, Communicator()).peak);
  EXPECT_NEAR(static_cast<double>(plan.highest) / peak, 1, 0.1) << peak << " bytes";
}

/// What Rajbhandari et al., arXiv 1910.02054, say of the second and third stage, and what the largest segment adds while it is whole.
TEST(PlanStep, tells_that_shards_are_all_that_is_kept) {
  for (const char* model : {"classifier", "decoder"})
    for (const int microbatches : {1, 2})
      for_each_world({2, 3}, [&](const Communicator& world) {
        if (world.size() == 1) return;
        Configuration c = large(model, in_turn(model, microbatches + world.size()));
        c.hidden = 192;  // so that what is saved is more than a tenth of all
        c.dp = world.size();
        c.microbatches = microbatches;
        const std::unique_ptr<Task> task = task_of(c);
        const auto parameters = static_cast<double>(planned(c, *task, world).parameters);
        const double ranks = world.size(), segment = 12 * 192 * 192;  // of a block; vectors are within the tolerance
        for (c.zero = 2; c.zero <= 3; ++c.zero) {
          const RankPlan plan = planned(c, *task, world);
          const auto peak = static_cast<double>(seen_in_a_step(c, *task, world).peak);
          EXPECT_NEAR(static_cast<double>(plan.highest) / peak, 1, 0.1)
              << model << " in " << name(c.precision) << ", " << microbatches << " micro-batches, stage " << c.zero
              << ", " << peak << " bytes";
          const double kept = (c.zero == 2 ? 4 + 12 / ranks : 16 / ranks) * parameters;
          const auto held = static_cast<double>(plan.weights + plan.gradients + plan.moments);
          if (c.zero == 3) {
            EXPECT_LE(held, 1.01 * kept);  // of whole rows
            continue;
          }
          EXPECT_LE(held, kept + 4 * segment);
          EXPECT_LE(static_cast<double>(plan.highest - plan.activations), kept + 2 * 4 * segment);
        }
      });
}

/// Of few activations, so that the formulas of the stages are about all.
TEST(PlanStep, of_each_stage_of_zero_needs_less_memory_as_its_formula_says) {
  for (const char* model : {"classifier", "decoder"})
    for_each_world({2, 3}, [&](const Communicator& world) {
      if (world.size() == 1) return;
      Configuration c = large(model, Precision::fp32);
      c.layers = 6;
      c.hidden = 192;
      c.sequence = 16;
      c.batch = 4;
      c.dp = world.size();
      const std::unique_ptr<Task> task = task_of(c);
      const Seen first = seen_in_a_step(c, *task, world);
      const double parameters = static_cast<double>(first.parameters), ranks = world.size(), segment = 12 * 192 * 192;
      for (c.zero = 2; c.zero <= 3; ++c.zero) {
        const double kept = (c.zero == 2 ? 4 + 12 / ranks : 16 / ranks) * parameters + (c.zero == 2 ? 4 : 8) * segment;
        const auto fall = static_cast<double>(first.peak - seen_in_a_step(c, *task, world).peak);
        EXPECT_GE(fall, 0.8 * ((8 + 8 / ranks) * parameters - kept))
            << model << ", stage " << c.zero << " on " << ranks;
      }
    });
}

/// A task of one's own: a plain module of torch::nn, made without a seed, which knows nothing of workers.
class PlainTask : public Task {
 public:
  int64_t size(data::Part) const override { return 7; }
  std::vector<models::Segment> segments() const override {
    const auto make = [](const Grid&, const at::TensorOptions& tensor) {
      torch::nn::Sequential net(torch::nn::Linear(300, 500), torch::nn::Tanh(), torch::nn::Linear(500, 1));
      net->to(tensor.dtype().toScalarType());
      return net.ptr();
    };
    return {models::segment<torch::nn::SequentialImpl>(
        "net", make, [](auto& net, const at::Tensor& x, const ForwardPass&) { return net.forward(x); })};
  }
  MicroBatch micro_batch(data::Part, std::span<const int64_t>, const data::BatchPart& mine, Step step) const override {
    return {at::ones({mine.count, 300}), at::ones({mine.count, 1}), {step}, mine.count};
  }
  at::Tensor loss(const at::Tensor& output, const MicroBatch& batch, const Grid&) const override {
    return at::mse_loss(output, batch.target, at::Reduction::Sum);
  }
};

TEST(PlanStep, knows_split_rows_of_more_micro_batches_than_it_runs) {
  Configuration c = uneven_sizes("classifier", Precision::fp32);
  c.hidden = 16;
  c.heads = 4;
  c.sequence = 40;
  c.dp = 24;
  c.tp = 2;
  c.sp = true;
  c.batch = 2 * c.dp;
  const auto task = random_task(c, c.batch, [](int64_t i) { return 3 + i * 7 % 38; });
  std::vector<int64_t> samples(static_cast<size_t>(c.batch));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  const std::vector<RankPlan> plans = plan_step(c, *task, samples);
  ASSERT_EQ(std::ssize(plans), c.dp * c.tp);
  for (const RankPlan& rank : plans) EXPECT_GT(rank.activations, 0);
}

TEST(PlanStep, knows_a_task_of_ones_own) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    Configuration c;
    c.batch = 7, c.dp = world.size();
    c.validation = 0.1;
    const PlainTask task;
    const RankPlan plan = plan_step(c, task, all_samples(task)).at(static_cast<size_t>(world.rank()));
    EXPECT_EQ(plan.parameters, 301 * 500 + 501);
    EXPECT_EQ(plan.weights, 2 * 4 * plan.parameters) << "with the best ones";
    EXPECT_EQ(text_of(plan.calls), text_of(seen_in_a_step(c, task, world).calls));
  });
}

}  // namespace
}  // namespace adjoin::plan
