// A task of one's own, whose model is a plain module of torch::nn that knows nothing of workers.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/nn/seeded.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/plan/dry_run.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/task/configuration_file.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/train/commands.hpp"
#include "adjoin/train/predictor.hpp"
#include "adjoin/train/resume.hpp"
#include "adjoin/train/run_files.hpp"
#include "adjoin/train/saved_model.hpp"
#include "tests/support/own_task.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

/// The square of a number, from 40 examples.
class Square : public Task {
 public:
  int64_t size(data::Part part) const override {
    return part == data::Part::train ? 40 : texts_.empty() ? 10 : std::ssize(texts_);
  }
  std::vector<models::Segment> segments() const override {
    const auto make = [](const Grid&, const at::TensorOptions& tensor) {
      auto net = nn::seeded(3, [] {
        return torch::nn::Sequential(torch::nn::Linear(1, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
      });
      net->to(tensor.dtype().toScalarType());
      return net.ptr();
    };
    return {models::segment<torch::nn::SequentialImpl>(
        "net", make, [](auto& net, const at::Tensor& x, const ForwardPass&) { return net.forward(x); })};
  }
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override {
    std::vector<double> x;
    for (const int64_t i : samples.subspan(static_cast<size_t>(mine.begin), static_cast<size_t>(mine.count)))
      x.push_back(part == data::Part::test && !texts_.empty() ? texts_[static_cast<size_t>(i)]
                                                              : static_cast<double>(i) / 20 - 1);
    const at::Tensor input = at::tensor(x, at::kDouble).unsqueeze(1);
    return {input, input.square(), {step}, mine.count};
  }
  at::Tensor loss(const at::Tensor& output, const MicroBatch& batch, const Grid&) const override {
    return at::mse_loss(output, batch.target, at::Reduction::Sum);
  }
  void take_texts(std::span<const std::string> texts) override {
    texts_.clear();
    for (const std::string& text : texts) texts_.push_back(std::stod(text));
  }
  std::vector<Prediction> predictions(const at::Tensor& output, const MicroBatch&, const Grid&) const override {
    std::vector<Prediction> predictions;
    for (int64_t i = 0; i < output.size(0); ++i)
      predictions.push_back({.what = "square", .value = output[i][0].item<double>()});
    return predictions;
  }

 private:
  std::vector<double> texts_;
};

std::unique_ptr<Task> make(const Configuration&) {
  return std::make_unique<Square>();
}

double trained_loss(const std::filesystem::path& folder, int64_t dp, int64_t tp) {
  Configuration c;
  c.batch = 7, c.epochs = 60, c.lr = 3e-2, c.precision = Precision::fp64, c.dp = dp, c.tp = tp;
  c.threads_per_rank = 1;
  c.out = folder.string();
  train(c, make);
  return nlohmann::json::parse(test::contents_of(folder / "summary.json")).at("test_loss");
}

TEST(OwnTask, of_a_plain_module_trains_the_same_model_in_every_layout_and_is_evaluated_and_used) {
  const test::TemporaryFolder folder;
  const double alone = trained_loss(folder / "1", 1, 1);
  EXPECT_LT(alone, 0.1);
  EXPECT_NEAR(trained_loss(folder / "dp", 3, 1), alone, 1e-9);
  EXPECT_NEAR(trained_loss(folder / "tp", 2, 2), alone, 1e-9);

  const EvaluationResult found = evaluate({{.model = (folder / "dp").string(), .ranks = {{.dp = 2}}}, {}}, make);
  EXPECT_NEAR(found.evaluation.loss, alone, 1e-9);

  std::vector<std::string> texts{"0.5", "-0.25", "0"};
  std::vector<double> squares;
  predict({.model = (folder / "tp").string(), .ranks = {{.dp = 2}}},
          {.next = [&] { return std::exchange(texts, {}); },
           .answer =
               [&](std::span<const Prediction> predictions) {
                 for (const Prediction& p : predictions) squares.push_back(p.value);
               }},
          make);
  ASSERT_EQ(squares.size(), 3u);
  EXPECT_GT(squares[0], squares[2]);
}

/// The losses of all steps of a training of plain modules.
std::vector<double> losses_of(const Configuration& c) {
  train(c, test::plain_task);
  std::vector<double> losses;
  std::istringstream lines(test::contents_of(std::filesystem::path(c.out) / kMetrics));
  for (std::string line; std::getline(lines, line);)
    if (const auto json = nlohmann::json::parse(line); json.at("kind") == "step") losses.push_back(json.at("loss"));
  return losses;
}

TEST(OwnTask, draws_the_weights_of_plain_modules_by_the_seed_in_every_layout) {
  const test::TemporaryFolder folder;
  const auto trained = [&](const std::string& name, int64_t seed, int64_t dp, int64_t pp, int64_t zero) {
    Configuration c = test::of_plain_task((folder / name).string(), /*epochs=*/1);
    c.precision = Precision::fp64, c.seed = seed, c.dp = dp, c.pp = pp, c.zero = zero;
    return losses_of(c);
  };
  const std::vector<double> one = trained("one", 1, 1, 1, 1);
  EXPECT_EQ(trained("again", 1, 1, 1, 1), one);
  EXPECT_GT(std::abs(trained("other", 2, 1, 1, 1).front() - one.front()), 1e-6);
  for (const auto& [dp, pp, zero] : std::vector<std::array<int64_t, 3>>{{3, 1, 1}, {2, 1, 3}, {1, 2, 1}}) {
    const std::string name = std::to_string(dp) + std::to_string(pp) + std::to_string(zero);
    EXPECT_THAT(trained(name, 1, dp, pp, zero), ::testing::Pointwise(::testing::DoubleNear(1e-9), one)) << name;
  }
  const nn::State state = [&] {
    nn::State weights;
    launch_threads(1, [&](const Communicator& world) {
      Trainer trainer({}, test::PlainTask(), world);
      trainer.initialize();
      for (const nn::Parameter& parameter : trainer.parameters()) weights[parameter.name] = parameter.tensor.detach();
    });
    return weights;
  }();
  EXPECT_FALSE(state.at("block0.weight").equal(state.at("block1.weight")));
}

TEST(OwnTask, goes_on_from_its_folder_or_begins_where_resume_is_auto) {
  const test::TemporaryFolder folder;
  const std::vector<double> whole = losses_of(test::of_plain_task((folder / "whole").string(), 3));
  ASSERT_EQ(whole.size(), 18u);
  Configuration c = test::of_plain_task((folder / "parts").string(), 3);
  c.resume = "auto";
  c.steps = 4;
  c.schedule = RateSchedule::constant;
  EXPECT_EQ(losses_of(c).size(), 4u);
  c.steps = 8;
  EXPECT_EQ(losses_of(c).size(), 8u);
  c.resume = c.out;
  c.out.clear();
  c.steps = 9;
  train(c, test::plain_task);
  EXPECT_EQ(checkpoints_in(c.resume).front().step, 9);
  Configuration alone = test::of_plain_task((folder / "alone").string(), 3);
  alone.steps = 9;
  alone.schedule = RateSchedule::constant;
  const std::vector<double> in_one_go = losses_of(alone);
  alone.out = c.resume, alone.resume = "auto";
  EXPECT_EQ(losses_of(alone), in_one_go);
}

/// The error of a training, or of what else is tried.
std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(OwnTask, is_refused_by_name_in_a_layout_that_it_cannot_take) {
  const test::TemporaryFolder folder;
  Configuration c = test::of_plain_task((folder / "run").string());
  c.cp = 2;
  EXPECT_EQ(refusal_of([&] { train(c, test::plain_task); }),
            "--cp 2 is more than the 1 row of the task's longest sample: a context-parallel rank needs at least one "
            "row");
  c.cp = 1, c.pp = 4, c.tp = 5;  // of heads a task of one's own knows nothing
  EXPECT_EQ(refusal_of([&] { plan::dry_run(c, test::plain_task); }), "");
  c.tp = 1;
  EXPECT_THAT(
      refusal_of([&] { train(c, [](const Configuration&) { return std::make_unique<test::PlainTask>(9); }); }),
      ::testing::StartsWith("the model's segment in says that its output has the shape [7, 9], and it has [7, 8]"));
  c.pp = 5;
  EXPECT_EQ(refusal_of([&] { train(c, test::plain_task); }),
            "--pp 5 makes 5 stages, but the model has only 4 segments");
}

TEST(OwnTask, is_named_in_the_files_of_its_run_which_say_nothing_of_texts) {
  const test::TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  train(test::of_plain_task(out), test::plain_task);
  for (const auto& json : {read_json(folder / "run" / "config.json"), read_json(folder / "run" / kRunFile).at("config"),
                           read_json(folder / "run" / kSummary).at("config")}) {
    EXPECT_EQ(json.at("task"), "squares");
    EXPECT_FALSE(json.contains("hidden")) << json;
    EXPECT_TRUE(json.contains("batch"));
  }
  EXPECT_THAT(refusal_of([&] {
                evaluate({{.model = out, .ranks = {}}, {}});
              }),
              ::testing::StartsWith(out + ": is of the task \"squares\""));
  EXPECT_EQ(read_configuration(folder / "run" / "config.json").batch, 7);
}

}  // namespace
}  // namespace adjoin::train
