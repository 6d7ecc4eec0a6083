// One network, made data parallel, then tensor parallel, then split over space, then resumed in another layout.
// docs/tour.md explains it.

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/distributed/network.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "examples/support/drawn_digits.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

namespace {

torch::nn::Sequential network() {
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)), torch::nn::ReLU(),
                               torch::nn::MaxPool2d(2), torch::nn::Flatten(), torch::nn::Linear(8 * 14 * 14, 10));
}

class Training {
 public:
  explicit Training(const nn::NetworkPlacement& placement)
      : placement_(placement),
        net_(nn::distributed(network(), placement)),
        loss_(nn::CrossEntropyLossOptions(), placement.grid),
        optimizer_(initialized(), parallel::adamw()) {}

  // One step on a batch that every worker has; returns the loss before it.
  double step(const at::Tensor& pictures, const at::Tensor& labels) {
    const Grid& grid = placement_.grid;
    const DistributedTensor x = place(pictures, placement_.of_space(pictures.sizes().vec(), 2), grid);
    const DistributedTensor y = place(labels, Layout(grid.shape(), {labels.size(0)}), grid);
    const at::Tensor loss = loss_(net_(x), y).local.sum();
    loss.backward();
    optimizer_.step(/*learning_rate=*/0.01);
    return loss.item<double>();
  }

  // Everything that training needs to go on, as global tensors on worker 0.
  std::pair<nn::State, nn::State> state() {
    return {nn::gather_state(nn::parameters_of(*net_)), nn::gather_state(optimizer_.state())};
  }
  void resume(const std::pair<nn::State, nn::State>& state) {
    nn::scatter_state(state.first, nn::parameters_of(*net_));
    nn::scatter_state(state.second, optimizer_.state());
  }

 private:
  std::vector<nn::Parameter> initialized() {
    nn::initialize(*net_, /*seed=*/1);
    return nn::parameters_of(*net_);
  }

  nn::NetworkPlacement placement_;
  nn::Sequential net_;
  nn::CrossEntropyLoss loss_;
  parallel::Optimizer optimizer_;
};

void tour(const Communicator& world, example::Report& report) {
  const auto [height, width] = example::nearly_square(world.size());
  const Grid row(world, {{"workers", world.size()}});
  const Grid square(world, {{"y", height}, {"x", width}});

  const example::LabelledPictures digits = example::draw_digits(30, /*seed=*/1);
  const at::Tensor pictures = digits.pictures.to(at::kFloat).unsqueeze(1) / 255, labels = digits.labels.to(at::kLong);

  const auto train = [&](const char* name, Training training) {
    for (int step = 0; step < 10; ++step) training.step(pictures, labels);
    const auto state = training.state();
    const double loss = training.step(pictures, labels);
    report.line("%-16s loss %.4f", name, loss);
    report.value(name, loss);
    return state;
  };
  train("data parallel", Training({.grid = row, .batch = {"workers"}}));
  train("tensor parallel", Training({.grid = row, .channels = {"workers"}}));
  const auto state = train("split over space", Training({.grid = square, .space = {{"y"}, {"x"}}}));

  Training resumed({.grid = row, .batch = {"workers"}});
  resumed.resume(state);
  const double loss = resumed.step(pictures, labels);
  report.line("%-16s loss %.4f", "resumed", loss);
  report.value("resumed", loss);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, {"One network in three layouts, then resumed in another."}, tour);
}
