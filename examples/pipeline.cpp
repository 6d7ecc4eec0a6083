// Stages of your own on the ranks of a pipeline: a network learns a sine, with one layer on each stage, by any schedule. The
// losses are those of one worker. docs/pipelines.md explains schedules.

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <map>

#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/seeded.hpp"
#include "adjoin/parallel/pipeline.hpp"
#include "adjoin/pipeline/picture.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

namespace {

constexpr int64_t kSamples = 256, kFeatures = 32;
constexpr int kMicroBatches = 8, kSteps = 200;

struct Options {
  std::string schedule = "1f1b";
  int chunks() const { return schedule == "interleaved" ? 2 : 1; }
};

/// The layers of some of the stages, each 1 -> 32, 32 -> 32 or 32 -> 1, and the optimizer that updates them.
class Layers {
 public:
  Layers(const std::vector<int>& of_stages, int all) : all_(all) {
    std::vector<at::Tensor> parameters;
    for (const int stage : of_stages) {
      const int64_t in = stage == 0 ? 1 : kFeatures, out = stage + 1 == all ? 1 : kFeatures;
      auto layer = nn::seeded(static_cast<uint64_t>(stage), [&] { return torch::nn::Linear(in, out); });
      layer->to(at::kDouble);
      for (const at::Tensor& parameter : layer->parameters()) parameters.push_back(parameter);
      layers_.emplace(stage, layer);
    }
    optimizer_ = std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(/*lr=*/0.1));
  }

  /// With linear_product the gradient of the weight can wait until W; with at::linear it would be computed in I.
  at::Tensor run(int stage, const at::Tensor& x) const {
    const torch::nn::Linear& layer = layers_.at(stage);
    const at::Tensor y = nn::linear_product(x, layer->weight, layer->bias);
    return stage + 1 == all_ ? y : y.tanh();
  }
  void update() {
    optimizer_->step();
    optimizer_->zero_grad();
  }

 private:
  int all_;
  std::map<int, torch::nn::Linear> layers_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
};

at::Tensor samples() {
  return at::linspace(-3, 3, kSamples, at::kDouble).unsqueeze(1);
}

at::Tensor part_of_loss(const at::Tensor& output, const at::Tensor& x) {
  return at::mse_loss(output, x.sin(), at::Reduction::Sum) / kSamples;
}

/// The loss of each step; every rank has only the layers of its own stages.
std::vector<double> losses_of_pipeline(const pipeline::Schedule& schedule, const Communicator& world) {
  std::vector<int> mine;
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.rank_of[static_cast<size_t>(stage)] == world.rank()) mine.push_back(stage);
  Layers layers(mine, schedule.stages);
  const std::vector<at::Tensor> micro_batches = samples().chunk(kMicroBatches);

  double loss = 0;
  const parallel::PipelineWork work{
      .forward =
          [&](int stage, int micro_batch, const at::Tensor& input) {
            return layers.run(stage, stage == 0 ? micro_batches[static_cast<size_t>(micro_batch)] : input);
          },
      .loss =
          [&](int micro_batch, const at::Tensor& output) {
            const at::Tensor part = part_of_loss(output, micro_batches[static_cast<size_t>(micro_batch)]);
            loss += part.item<double>();
            return part;
          },
      .output_shape =
          [](int, int) {
            return std::vector<int64_t>{kSamples / kMicroBatches, kFeatures};
          },
      .output = at::kDouble};

  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    loss = 0;
    parallel::run_pipeline(schedule, world, work);
    layers.update();
    world.all_reduce(buffer(loss));  // only the rank of the last stage knows it
    losses.push_back(loss);
  }
  return losses;
}

std::vector<double> losses_of_one_worker(int stages) {
  std::vector<int> all;
  for (int stage = 0; stage < stages; ++stage) all.push_back(stage);
  Layers layers(all, stages);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    at::Tensor x = samples();
    for (const int stage : all) x = layers.run(stage, x);
    const at::Tensor loss = part_of_loss(x, samples());
    loss.backward();
    layers.update();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

void learn_a_sine(const Options& options, const Communicator& world, example::Report& report) {
  const pipeline::Schedule schedule =
      pipeline::make_schedule(options.schedule, world.size(), kMicroBatches, options.chunks());
  const pipeline::Costs costs = pipeline::equal_costs(schedule, {});
  const pipeline::Timeline timeline = pipeline::simulate(schedule, costs);
  report.line("%s", pipeline::picture_of(schedule, costs, timeline).c_str());
  report.line("idle for %.3f of the time, if all actions take as long", timeline.bubble);

  const std::vector<double> together = losses_of_pipeline(schedule, world);
  const std::vector<double> alone = losses_of_one_worker(schedule.stages);
  double difference = 0;
  for (size_t step = 0; step < together.size(); ++step) {
    difference = std::max(difference, std::abs(together[step] - alone[step]));
    if (step % 50 == 0) report.line("step %3zu  loss %.6f  one worker's %.6f", step, together[step], alone[step]);
  }
  report.line("The losses of %d steps are one worker's but for %.1e.", kSteps, difference);
  example::ensure(difference < 1e-9, "the losses differ from those of one worker");
  report.value("stages", int64_t{schedule.stages});
  report.value("bubble", timeline.bubble);
  report.value("losses", together);
  report.value("loss_difference", difference);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  example::About about{"Stages of one's own, one layer each, on the ranks of a pipeline.", /*ranks=*/4};
  about.add_options = [&](CLI::App& app) {
    const std::function<void(const std::string&)> read = [&](const std::string& name) {
      pipeline::make_schedule(name, /*ranks=*/1, /*micro_batches=*/1);  // refuses an unknown name
      options.schedule = name;
    };
    app.add_option_function("--schedule", read, "In which order ranks act on micro-batches [1f1b]")
        ->option_text("gpipe|1f1b|interleaved|zb-h1");
  };
  return example::run(argc, argv, about, [&](const Communicator& world, example::Report& report) {
    learn_a_sine(options, world, report);
  });
}
