#include "examples/support/classifier.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/optim/sgd.h>

#include <CLI/App.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/parallel/gradients.hpp"

namespace adjoin::example {
namespace {

constexpr int64_t kBatch = 4, kChannels = 3;
constexpr double kRate = 0.01;
constexpr uint64_t kSeed = 1;

nn::NetworkPlacement placement_on(const Communicator& world, bool over_channels) {
  if (over_channels) return {.grid = Grid(world, {{"c", world.size()}}), .channels = {"c"}};
  const auto [height, width] = nearly_square(world.size());
  return {.grid = Grid(world, {{"y", height}, {"x", width}}), .space = {{"y"}, {"x"}}};
}

void initialise(const torch::nn::Module& net) {
  for (const nn::Parameter& parameter : nn::parameters_of(net)) {
    if (parameter.layout.dims() > 2) nn::init::kaiming_normal_(parameter, kSeed);
    if (parameter.layout.dims() == 2) nn::init::xavier_normal_(parameter, kSeed);
    if (parameter.name.ends_with("bias")) nn::init::uniform_(parameter, kSeed, 0, 0);
  }
}

}  // namespace

void add_classifier_options(CLI::App& app, ClassifierOptions& options) {
  const std::function<void(const std::string&)> cut = [&](const std::string& text) {
    require(text == "space" || text == "channels", [&] { return "--cut is " + text + ", expected space or channels"; });
    options.over_channels = text == "channels";
  };
  app.add_option_function("--cut", cut, "What is cut over the ranks [space]")->option_text("space|channels");
  add_steps(app, options.steps, "Steps of training [" + std::to_string(options.steps) + "]");
}

void train_classifier(const Communicator& world, const ClassifierOptions& options, int64_t height, int64_t width,
                      const std::function<nn::Sequential(const nn::NetworkPlacement& on)>& make, Report& report) {
  const nn::NetworkPlacement on = placement_on(world, options.over_channels);
  nn::Sequential net = make(on);
  initialise(*net);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(kRate));
  nn::CrossEntropyLoss loss(on.grid);

  const std::vector<int64_t> shape{kBatch, kChannels, height, width};
  const at::Tensor drawn = at::randn(shape, at::detail::createCPUGenerator(kSeed), at::kDouble);
  const DistributedTensor pictures = place(drawn, on.of_space(shape, 2), on.grid);
  const DistributedTensor labels = place(at::arange(kBatch) % kClasses, Layout(on.grid.shape(), {kBatch}), on.grid);
  std::vector<double> losses;
  for (int64_t step = 0; step < options.steps; ++step) {
    optimizer.zero_grad();
    const DistributedTensor misfit = loss(net(pictures), labels);
    misfit.local.sum().backward();
    parallel::sum_gradients(*net);
    optimizer.step();
    losses.push_back(misfit.local.item<double>());
    report.line("step %2ld  loss %.12f", static_cast<long>(step), losses.back());
  }
  report.value("losses", losses);
}

}  // namespace adjoin::example
