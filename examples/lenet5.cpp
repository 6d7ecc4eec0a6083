// LeNet-5 on MNIST's digits. Four workers hold quarters of every picture, and of all features of it; then the features
// move to a grid of rows and columns, over which the weights of the linear layers are cut.
//
// The layout is that of DistDL's example (github.com/distdl/distdl-examples), for any number of workers.

#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include "adjoin/data/sampler.hpp"
#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/distributed/conv.hpp"
#include "adjoin/nn/distributed/linear.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "adjoin/nn/distributed/sequential.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "examples/support/digits.hpp"

using namespace adjoin;

namespace {

// The model.
struct Grids {
  explicit Grids(const Communicator& world) : space(shaped(world, "y", "x")), features(shaped(world, "out", "in")) {}
  static Grid shaped(const Communicator& world, const char* rows, const char* columns) {
    const auto [height, width] = example::nearly_square(world.size());
    return Grid(world, {{rows, height}, {columns, width}});
  }
  Grid space, features;
};

nn::Sequential lenet5(const Grids& on, at::ScalarType type) {
  const auto conv = [&](int64_t in, int64_t out, int64_t padding) {
    const Layout weight = nn::copied_on(on.space.shape(), {out, in, 5, 5});
    return nn::Conv2d(nn::Conv2dOptions(in, out, 5).padding(padding), nn::Placement{weight, {}, type}, on.space);
  };
  const auto linear = [&](int64_t in, int64_t out) {
    const Layout weight = nn::balanced_over(on.features.shape(), {{"out"}, {"in"}})({out, in});
    return nn::Linear(nn::LinearOptions(in, out), nn::Placement{weight, {}, type}, on.features);
  };
  const nn::Elementwise relu(at::relu);
  const nn::MaxPool2d pool(nn::MaxPool2dOptions(2), on.space);
  return nn::Sequential(conv(1, 6, 2), relu, pool,                    // [batch, 6, 14, 14], cut over space
                        conv(6, 16, 0), relu, pool,                   // [batch, 16, 5, 5]
                        nn::Flatten(nn::FlattenOptions(), on.space),  // [batch, 400], cut over features
                        linear(400, 120), relu, linear(120, 84), relu, linear(84, 10));  // their weights over both
}

// The training.
using example::Digits;

constexpr int64_t kPart = 500;  // pictures of a part of the test
constexpr double kRate = 0.04, kMomentum = 0.9;

class Training {
 public:
  Training(const Communicator& world, at::ScalarType type)
      : grids_(world),
        net_(lenet5(grids_, type)),
        loss_(grids_.features),
        optimizer_(initialized(), torch::optim::SGDOptions(kRate).momentum(kMomentum)) {}

  /// One step on a batch that all workers have; the loss before it.
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

  /// The share of pictures that it takes for what they are.
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

  Grids grids_;
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
    losses.push_back(training.step(batch, kRate * left));  // falls to 0, so that no single batch has the last word
    if (step % 100 == 0) report.line("step %4ld  loss %.4f", static_cast<long>(step), losses.back());
  }
  example::report_outcome(report, training.accuracy(test), test, losses);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run_on_digits(argc, argv, "LeNet-5 on MNIST's digits, cut over space and features.", learn_digits);
}
