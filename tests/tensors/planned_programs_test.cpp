#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "adjoin/comm/values.hpp"
#include "adjoin/plan/layouts.hpp"
#include "adjoin/plan/plan.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/npy.hpp"
#include "adjoin/tensors/tensor_task.hpp"
#include "adjoin/train/tasks.hpp"
#include "tests/program/cases.hpp"
#include "tests/support/program_texts.hpp"
#include "tests/support/programs/random.hpp"
#include "tests/support/programs/trials.hpp"
#include "tests/support/seen_steps.hpp"

namespace adjoin::plan {
namespace {

using namespace adjoin::testing;

// Bytes: below, what a step makes beside its tensors is too much of it.
constexpr int64_t kLeastPeak = 1 << 19;

/// A program on tensors of `x` and `y`, and more of `x` with other names.
Configuration of_tensors(const std::string& program, const std::string& data, const at::Tensor& x, const at::Tensor& y,
                         const char* more = nullptr) {
  std::filesystem::create_directories(data + "/train");
  std::filesystem::create_directories(data + "/test");
  for (const char* part : {"/train/", "/test/"}) {
    write_npy(data + part + "x.npy", x);
    write_npy(data + part + "y.npy", y);
    if (more != nullptr) write_npy(data + part + more, at::ones_like(x));
  }
  Configuration c;
  c.program = program;
  c.data = data;
  c.task = kProgramTask;
  c.precision = Precision::fp64;
  c.batch = x.size(0);
  return c;
}

Configuration digits(const Communicator& world, const std::string& place, int64_t samples) {
  return of_tensors((program::cases(world) / "cnn.pt2").string(), place + "/digits",
                    at::ones({samples, 1, 8, 8}, at::kDouble), at::arange(samples, at::kLong) % 5);
}

Configuration words(const Communicator& world, const std::string& place, int64_t samples) {
  Configuration c = of_tensors((program::cases(world) / "dropping.pt2").string(), place + "/words",
                               at::arange(samples * 7, at::kLong).view({samples, 7}) % 19,
                               at::ones({samples, 7, 20}, at::kDouble), "mask.npy");
  c.loss = TensorLoss::mse;
  return c;
}

/// The folder of a world, in which each rank writes the same.
std::string place_of(const test::TemporaryFolder& folder, const Communicator& world) {
  const std::string place = text_from_rank(0, folder.path().string(), world) + "/" + std::to_string(world.rank());
  std::filesystem::create_directories(place);
  return place;
}

/// A program on texts of uneven lengths, whose batch is all of them.
Configuration texts(const Communicator& world, const std::string& place, bool is_decoder) {
  write_texts(place);
  Configuration c = of_texts(program::cases(world).string(), place, is_decoder);
  c.batch = make_task(c, {})->size(data::Part::train);
  return c;
}

Configuration numbers(const Communicator& world, const std::string& place, int64_t samples) {
  Configuration c = of_tensors((program::cases(world) / "path.pt2").string(), place + "/numbers",
                               at::ones({samples, 6}, at::kDouble), at::ones({samples, 6}, at::kDouble));
  c.loss = TensorLoss::mse;
  return c;
}

/// Draws a training from a seed.
Configuration drawn(uint64_t seed, const Communicator& world, const std::string& place) {
  programs::Random random(seed);
  const auto number = [&](const std::vector<int64_t>& of) { return random.one_of(of); };
  Configuration layout;
  for (int64_t left = world.size(); left > 1;) {
    const int64_t factor = left % 2 == 0 ? 2 : left;
    *random.one_of(std::vector{&layout.dp, &layout.pp, &layout.pp, &layout.tp}) *= factor;
    left /= factor;
  }
  const int64_t microbatches = number({1, 2, 4}), samples = layout.dp * microbatches * number({2, 5, 20});
  const int kind = random.below(layout.pp > 1 ? 4 : 5);  // the last one has few operators
  Configuration c = kind == 0   ? words(world, place, samples)
                    : kind == 1 ? digits(world, place, samples)
                    : kind == 2 ? numbers(world, place, samples)
                                : texts(world, place, kind == 4);
  c.dp = layout.dp, c.pp = layout.pp, c.tp = layout.tp, c.microbatches = microbatches;
  c.zero = number({0, 1, 2, 3, 3});
  if (kind == 0 && random.chance(30)) c.recompute = Recompute::segment;
  c.pipeline = random.one_of(std::vector<std::string>{"1f1b", "gpipe", "zb-h1", "interleaved"});
  c.chunks = c.pipeline == "interleaved" ? 2 : 1;
  if (random.chance(30)) c.optimizer = OptimizerRule::sgd;
  return c;
}

/// Without those that tell which samples each rank has, which are not seen in checked mode.
std::vector<PlannedCall> without_counts(std::vector<PlannedCall> calls) {
  std::erase_if(calls, [](const PlannedCall& call) {
    return call.collective == Collective::all_gather && call.bytes == static_cast<int64_t>(2 * sizeof(int64_t));
  });
  return calls;
}

TEST(PlannedPrograms, tell_what_a_step_then_calls_and_nearly_how_much_memory_it_needs) {
  const test::TemporaryFolder folder;
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    const std::string place = place_of(folder, world);
    for (const uint64_t seed : programs::seeds(2)) {
      const Silence silence;
      Configuration c = drawn(seed, world, place);
      const std::string what = "seed " + std::to_string(seed) + ": " + c.program + " " + text_of("loss", c) + " on " +
                               grid_sizes(c).to_string() + ", zero " + std::to_string(c.zero) + " " + c.pipeline +
                               " of " + std::to_string(c.microbatches) + " recompute " + text_of("recompute", c);
      validate(c);
      const std::unique_ptr<Task> task = make_task(c, {});
      const Seen seen = seen_in_a_step(c, *task, world);  // which decides on the stages of all ranks
      StepPlanner planner({}, hosts_of(world));
      const std::vector<int> ranks{world.rank(), world.size() - 1};  // the last one knows how long the tally is
      const RankPlan plan = planner.plan(c, *task, all_samples(*task), ranks).front();
      EXPECT_EQ(plan.parameters, seen.parameters) << what;
      EXPECT_EQ(text_of(without_counts(plan.calls)), text_of(without_counts(seen.calls))) << what;
      // Messages are gone when another rank takes them.
      const bool is_known = c.pp == 1 || c.microbatches == 1;
      if (seen.peak >= kLeastPeak && is_known) {
        EXPECT_NEAR(static_cast<double>(plan.highest) / static_cast<double>(seen.peak), 1, 0.1)
            << what << ": " << seen.peak << " bytes";
      }
    }
  });
}

TEST(PlannedPrograms, tell_within_a_tenth_how_much_memory_they_need) {
  const test::TemporaryFolder folder;
  const Communicator alone;
  Configuration c = digits(alone, folder.path().string(), 256);
  for (const int microbatches : {1, 4}) {
    c.microbatches = microbatches;
    const std::unique_ptr<Task> task = TensorTask::make(c);
    const int64_t plan = plan_step(c, *task, all_samples(*task)).front().highest;
    const int64_t seen = seen_in_a_step(c, *task, alone).peak;
    EXPECT_NEAR(static_cast<double>(plan) / static_cast<double>(seen), 1, 0.1) << microbatches << " micro-batches";
  }
}

TEST(PlannedTexts, have_layouts_of_which_one_is_then_trained) {
  const Silence silence;
  const test::TemporaryFolder folder;
  // A cache of the test's own.
  ::setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  const auto make = [](const Configuration& c) { return task_kind(c).make(c); };
  for (const bool is_decoder : {false, true}) {
    Configuration c = texts(Communicator(), folder.path().string(), is_decoder);
    c.microbatches = 2;
    c.threads_per_rank = 1;
    const Plan plan = layouts(c, make,
                              {.placement = {.ranks = 2, .hosts = 2, .network = algorithm::Network{1e-6, 0}},
                               .fixed = {"zero", "recompute", "pipeline", "microbatches"},
                               .measuring_seconds = 0.1,
                               .tolerance = 1e9});
    std::set<std::string> options;
    for (const PlannedLayout& layout : plan.fitting) options.insert(options_of(layout.configuration));
    EXPECT_EQ(options,
              (std::set<std::string>{"--dp 2 --microbatches 2", "--tp 2 --microbatches 2", "--pp 2 --microbatches 2"}));
    EXPECT_GT(check(plan, make, /*count=*/1, /*steps=*/2).front().seconds, 0);
  }
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace adjoin::plan
