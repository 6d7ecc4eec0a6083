// LeNet-5 on MNIST's digits. Each of four workers holds a quarter of every picture and of its features; then the features
// move to a grid of rows and columns, which also cuts the weights of the linear layers.
//
// The layout is that of DistDL's example (github.com/distdl/distdl-examples), for any number of workers.

#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include "adjoin/data/sampler.hpp"
#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "examples/networks/lenet5.hpp"
#include "examples/support/digits.hpp"

using namespace adjoin;

namespace {

using example::Digits;

constexpr int64_t kPart = 500;  // pictures that are tested at once
constexpr double kRate = 0.04, kMomentum = 0.9;

class Training {
 public:
  Training(const Communicator& world, at::ScalarType type)
      : grids_(world),
        net_(example::lenet5(grids_, type)),
        loss_(grids_.features),
        optimizer_(initialized(), torch::optim::SGDOptions(kRate).momentum(kMomentum)) {}

  /// Takes one step on a batch that all workers have; returns the loss before it.
  double step(const Digits& batch, double rate) {
    optimizer_.param_groups()[0].options().set_lr(rate);
    optimizer_.zero_grad();
    const Layout everywhere(grids_.features.shape(), batch.labels.sizes().vec());
    const DistributedTensor labels{batch.labels, everywhere, grids_.features};
    const DistributedTensor loss = loss_(scores(batch), labels);
    loss.local.sum().backward();
    parallel::sum_gradients(*net_);
    optimizer_.step();
    return loss.local.item<double>();
  }

  /// The fraction of pictures that are classified correctly.
  double accuracy(const Digits& test) {
    const at::NoGradGuard no_gradient;
    int64_t right = 0;
    for (int64_t i = 0; i < test.size(); i += kPart) {
      const Digits part = test.part(i, i + kPart);
      right += whole(scores(part)).argmax(1).eq(part.labels).sum().item<int64_t>();
    }
    return static_cast<double>(right) / static_cast<double>(test.size());
  }

 private:
  DistributedTensor scores(const Digits& digits) {
    const nn::LayoutRule over_space = nn::balanced_over(grids_.space.shape(), {{}, {}, {"y"}, {"x"}});
    return net_(place(digits.pictures, over_space(digits.pictures.sizes().vec()), grids_.space));
  }
  std::vector<at::Tensor> initialized() {
    nn::initialize(*net_, /*seed=*/1);  // the same global weights for every number of workers
    return net_->parameters();
  }

  example::Grids grids_;
  nn::Sequential net_;
  nn::CrossEntropyLoss loss_;
  torch::optim::SGD optimizer_;
};

void learn_digits(const Communicator& world, const example::DigitsOptions& options, example::Report& report) {
  const auto [train, test] = example::read_digits(options);
  data::Sampler sampler({.samples = train.size(), .batch = example::kDigitsOfStep, .seed = 1});
  const int64_t steps = example::steps_of(options);
  Training training(world, train.pictures.scalar_type());
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    const Digits batch = train.chosen(sampler.next());
    const double left = 1 - static_cast<double>(step) / static_cast<double>(steps);
    losses.push_back(training.step(batch, kRate * left));  // falls to 0, so that no single batch decides the result
    if (step % 100 == 0) report.line("step %4ld  loss %.4f", static_cast<long>(step), losses.back());
  }
  example::report_outcome(report, training.accuracy(test), test, losses);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run_on_digits(argc, argv, "LeNet-5 on MNIST's digits, cut over space and features.", learn_digits);
}
