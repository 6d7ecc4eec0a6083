#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/comm/values.hpp"
#include "adjoin/store/npy.hpp"
#include "adjoin/tensors/tensor_task.hpp"
#include "tests/program/cases.hpp"
#include "tests/support/seen_steps.hpp"

namespace adjoin::plan {
namespace {

using namespace adjoin::testing;

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

/// Without those that tell which samples each rank has, which are not seen in checked mode.
std::vector<PlannedCall> without_counts(std::vector<PlannedCall> calls) {
  std::erase_if(calls, [](const PlannedCall& call) {
    return call.collective == Collective::all_gather && call.bytes == static_cast<int64_t>(2 * sizeof(int64_t));
  });
  return calls;
}

void expect_calls(const Configuration& c, const Communicator& world) {
  validate(c);
  const std::unique_ptr<Task> task = TensorTask::make(c);
  const Seen seen = seen_in_a_step(c, *task, world);                  // which decides on the stages of all ranks
  if (world.rank() != 0 && world.rank() + 1 != world.size()) return;  // these take long enough
  StepPlanner planner({}, hosts_of(world));
  const std::vector<int> ranks{world.rank(), world.size() - 1};  // the last one knows how long the tally is
  const RankPlan plan = planner.plan(c, *task, all_samples(*task), ranks).front();
  EXPECT_EQ(plan.parameters, seen.parameters);
  EXPECT_EQ(text_of(without_counts(plan.calls)), text_of(without_counts(seen.calls)))
      << c.program << " on " << grid_sizes(c).to_string() << " zero " << c.zero << " " << c.pipeline;
}

TEST(PlannedPrograms, call_what_a_step_then_calls) {
  const test::TemporaryFolder folder;
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    const std::string place = place_of(folder, world);
    Configuration c = digits(world, place, 12);
    for (const int64_t zero :
         world.size() == 2 ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{world.size() == 4}) {
      c.zero = zero;
      c.microbatches = 1 + zero % 2;
      c.tp = world.size() == 4 ? 2 : zero % 2 == 0 ? world.size() : 1;
      c.dp = world.size() / c.tp;
      expect_calls(c, world);
    }
  });
}

TEST(PlannedPrograms, send_what_stages_then_send) {
  const test::TemporaryFolder folder;
  for_each_world({2, 4}, [&](const Communicator& world) {
    const std::string place = place_of(folder, world);
    Configuration c = words(world, place, 8);
    c.microbatches = 4;
    c.pp = world.size() % 2 == 0 ? 2 : world.size();
    c.dp = world.size() / c.pp;
    c.pipeline = world.size() == 2 ? "interleaved" : "zb-h1";
    c.chunks = world.size() == 2 ? 2 : 1;
    c.zero = world.size() == 4 ? 2 : 1;  // of 3 a rank may still have what the plan gathers again
    expect_calls(c, world);
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

}  // namespace
}  // namespace adjoin::plan
