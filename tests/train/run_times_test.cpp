// Where the time of a training's ranks went, as its files tell it.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "adjoin/comm/launch.hpp"
#include "adjoin/nn/seeded.hpp"
#include "adjoin/train/commands.hpp"
#include "adjoin/train/training_run.hpp"
#include "tests/support/random_task.hpp"
#include "tests/support/slow_backend.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using test::contents_of;
using test::TemporaryFolder;

/// A number by two layers, whose samples in the second half of a batch are slow to read.
class SlowSamples final : public Task {
 public:
  explicit SlowSamples(milliseconds delay) : delay_(delay) {}
  int64_t size(data::Part part) const override { return part == data::Part::train ? 12 : 2; }
  std::vector<models::Segment> segments() const override { return {layer("first", 1, 4), layer("second", 4, 1)}; }
  MicroBatch micro_batch(data::Part part, std::span<const int64_t>, const data::BatchPart& mine,
                         Step step) const override {
    if (part == data::Part::train && mine.begin > 0) std::this_thread::sleep_for(delay_);
    const at::Tensor input = at::ones({mine.count, 1}, at::kDouble);
    return {input, input * 2, {step}, mine.count};
  }
  at::Tensor loss(const at::Tensor& output, const MicroBatch& batch, const Grid&) const override {
    return at::mse_loss(output, batch.target, at::Reduction::Sum);
  }

 private:
  static models::Segment layer(const std::string& name, int64_t in, int64_t out) {
    const auto make = [in, out](const Grid&, const at::TensorOptions& tensor) {
      auto layer = nn::seeded(3, [&] { return torch::nn::Linear(in, out); });
      layer->to(tensor.dtype().toScalarType());
      return layer.ptr();
    };
    models::Segment segment = models::segment<torch::nn::LinearImpl>(
        name, make, [](auto& net, const at::Tensor& x, const ForwardPass&) { return net.forward(x); });
    segment.output_shape = [out](const Grid&, const LocalTokenRows& rows) {
      return std::vector<int64_t>{rows ? rows.size() : 4, out};
    };
    return segment;
  }
  const milliseconds delay_;
};

Configuration configuration_in(const std::filesystem::path& folder) {
  Configuration c;
  c.batch = 4, c.epochs = 1, c.lr = 1e-2, c.precision = Precision::fp64;
  c.threads_per_rank = 1;
  c.out = folder.string();
  return c;
}

std::vector<json> steps_of(const std::filesystem::path& folder) {
  std::istringstream file(contents_of(folder / "metrics.jsonl"));
  std::vector<json> steps;
  for (std::string line; std::getline(file, line);)
    if (json object = json::parse(line); object.at("kind") == "step") steps.push_back(object);
  return steps;
}

double step_seconds_of(const std::vector<json>& steps) {
  double sum = 0;
  for (const json& step : steps) sum += step.at("step_seconds").get<double>();
  return sum;
}

json summary_of(const std::filesystem::path& folder) {
  return json::parse(contents_of(folder / "summary.json"));
}

double seconds_of(const json& rank, const char* what) {
  return rank.at(std::string(what) + "_seconds");
}

void expect_sums(const json& summary, double seconds) {
  for (const json& rank : summary.at("ranks"))
    EXPECT_NEAR(seconds_of(rank, "computing") + seconds_of(rank, "waiting") + seconds_of(rank, "communicating") +
                    seconds_of(rank, "data"),
                seconds, 1e-5);
}

TEST(RunTimes, tell_of_the_rank_for_which_all_wait) {
  const TemporaryFolder folder;
  Configuration c = configuration_in(folder.path());
  c.dp = 2;
  train(c, [](const Configuration&) { return std::make_unique<SlowSamples>(milliseconds(60)); });
  const std::vector<json> steps = steps_of(folder.path());
  ASSERT_EQ(steps.size(), 3u);
  double waiting = 0;
  for (const json& step : steps) {
    EXPECT_GE(step.at("communicating_seconds"), 0);
    EXPECT_FALSE(step.contains("flops_per_second"));  // its segments do not say what they cost
    waiting += step.at("waiting_seconds").get<double>();
  }
  const json summary = summary_of(folder.path()), ranks = summary.at("ranks");
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_GT(seconds_of(ranks[1], "data"), 0.09);  // of 0.18, without what rank 1 reads before rank 0 begins the step
  EXPECT_LT(seconds_of(ranks[1], "waiting"), seconds_of(ranks[0], "waiting"));
  EXPECT_GT(seconds_of(ranks[0], "waiting"), 0.06);  // of 0.18: on a busy machine it comes late too
  EXPECT_NEAR(waiting, (seconds_of(ranks[0], "waiting") + seconds_of(ranks[1], "waiting")) / 2, 1e-9);
  expect_sums(summary, summary.at("train_seconds"));
}

TEST(RunTimes, of_slow_transfers_are_communicating) {
  const TemporaryFolder folder;
  Configuration c = configuration_in(folder.path());
  c.dp = 2;
  const SlowSamples task(milliseconds(0));
  launch_threads(
      2, [&](const Communicator& world) { TrainingRun(c, task, testing::slowed_by(world, milliseconds(20))).run(); });
  // The gradients, their norm, the new weights, and the loss.
  for (const json& step : steps_of(folder.path())) EXPECT_GE(step.at("communicating_seconds"), 0.06);
  expect_sums(summary_of(folder.path()), step_seconds_of(steps_of(folder.path())));
}

TEST(RunTimes, of_a_resumed_run_are_those_of_its_last_start) {
  const TemporaryFolder folder;
  const auto make = [](const Configuration&) { return std::make_unique<SlowSamples>(milliseconds(0)); };
  Configuration c = configuration_in(folder.path());
  c.dp = 2;
  train(c, make);
  c.resume = c.out;
  c.epochs = 2;
  train(c, make);
  const std::vector<json> steps = steps_of(folder.path());
  ASSERT_EQ(steps.size(), 6u);
  for (const json& step : steps) EXPECT_LT(step.at("slowest_rank"), 2);
  expect_sums(summary_of(folder.path()), step_seconds_of({steps.begin() + 3, steps.end()}));
  train(c, make);  // nothing is left to do
  EXPECT_FALSE(summary_of(folder.path()).at("ranks")[0].contains("waiting_seconds"));
}

TEST(RunTimes, of_a_pipeline_have_the_actions_of_its_last_step) {
  const TemporaryFolder folder;
  Configuration c = configuration_of("tiny");
  c.out = folder.path().string();
  c.threads_per_rank = 1;
  c.vocabulary_size = 64;
  c.batch = 4;
  c.epochs = 1;
  c.pp = c.microbatches = 2;
  train(c, [](const Configuration& given) { return testing::random_task(given, 12, [](int64_t) { return 8; }); });
  const json summary = summary_of(folder.path()), step = summary.at("pipeline_step");
  EXPECT_EQ(step.at("step"), 3);
  ASSERT_EQ(step.at("ranks").size(), 2u);
  const double seconds = steps_of(folder.path()).back().at("step_seconds");
  for (int rank = 0; rank < 2; ++rank) {
    const json& of = step.at("ranks")[static_cast<size_t>(rank)];
    EXPECT_EQ(of.at("rank"), rank);
    std::string actions;
    double last = 0;
    for (const json& action : of.at("actions")) {
      actions += action.at("action").get<std::string>() + std::to_string(action.at("microbatch").get<int>());
      EXPECT_EQ(action.at("stage"), rank);
      EXPECT_GE(action.at("begin"), last - 1e-6);
      EXPECT_GE(action.at("end"), action.at("begin"));
      last = action.at("end");
    }
    EXPECT_EQ(actions, rank == 0 ? "F0F1B0B1" : "F0B0F1B1");
    EXPECT_LE(last, seconds);
  }
  const auto begin_of = [&](size_t rank) { return step.at("ranks")[rank].at("actions")[0].at("begin").get<double>(); };
  EXPECT_LT(begin_of(0), begin_of(1));
  for (const json& rank : summary.at("ranks")) EXPECT_GT(seconds_of(rank, "waiting"), 0);
}

TEST(Flops, are_those_of_the_model_in_every_layout) {
  Configuration c = configuration_of("tiny");
  c.vocabulary_size = 50;
  c.token_dropout = 0;
  c.batch = 5;
  const auto task_of = [](const Configuration& given) {
    return testing::random_task(given, 5, [](int64_t i) { return 8 + 3 * i; });
  };
  // Of each block and row four products of hidden by hidden and two of hidden by four times that; of each sample's scores and
  // sums of values 4 T^2 hidden; twice as much backward.
  double expected = 0;
  const auto task = task_of(c);
  for (const int64_t length : task->lengths(data::Part::train)) {
    const auto t = static_cast<double>(length), hidden = static_cast<double>(c.hidden);
    expected += 3 * static_cast<double>(c.layers) * (2 * 12 * hidden * hidden * t + 4 * t * t * hidden);
  }
  testing::for_each_world({1, 2}, [&](const Communicator& world) {
    for (int64_t Configuration::*axis :
         {&Configuration::dp, &Configuration::pp, &Configuration::cp, &Configuration::tp}) {
      Configuration layout = c;
      layout.*axis = world.size();
      layout.microbatches = 2;
      layout.recompute = Recompute::segment;
      const auto split = task_of(layout);
      Trainer trainer(layout, *split, world);
      trainer.initialize();
      EXPECT_NEAR(trainer.step(testing::all_samples(*split), 0, 1e-3).flops, expected, 1e-9 * expected);
    }
  });
}

}  // namespace
}  // namespace adjoin::train
