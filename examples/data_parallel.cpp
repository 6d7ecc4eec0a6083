// A training loop of LibTorch on MNIST's digits, data parallel by the lines that docs/data-parallelism.md points at.

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include "adjoin/data/sampler.hpp"
#include "adjoin/nn/seeded.hpp"
#include "adjoin/parallel/data_parallel.hpp"
#include "adjoin/partition/split.hpp"
#include "examples/support/digits.hpp"

using namespace adjoin;

namespace {

struct Net : torch::nn::Module {
  Net()
      : conv1(register_module("conv1", torch::nn::Conv2d(1, 8, 5))),
        conv2(register_module("conv2", torch::nn::Conv2d(8, 16, 5))),
        out(register_module("out", torch::nn::Linear(16 * 4 * 4, 10))) {}
  at::Tensor forward(at::Tensor x) {
    x = at::max_pool2d(conv1(x), 2).relu();
    x = at::max_pool2d(conv2(x), 2).relu();
    return out(x.flatten(1));
  }

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear out;
};

/// This rank's own part of a batch; the parts need not be equal, and may be empty.
example::Digits part_of(const example::Digits& batch, const Communicator& world) {
  const Range mine = Split::balanced(batch.size(), world.size(), /*dim=*/0).ranges(world.rank())[0];
  return batch.part(mine.begin, mine.end);
}

void learn_digits(const Communicator& world, const example::DigitsOptions& options, example::Report& report) {
  const auto [train, test] = example::read_digits(options);
  data::Sampler sampler({.samples = train.size(), .batch = example::kDigitsOfStep, .seed = 1});
  std::vector<double> losses;

  const auto net = nn::seeded(/*seed=*/1, [] { return std::make_shared<Net>(); });
  net->to(train.pictures.scalar_type());
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(2e-3));
  parallel::DataParallel data(*net, world);

  for (int64_t step = 0; step < example::steps_of(options); ++step) {
    const example::Digits batch = part_of(train.chosen(sampler.next()), world);
    optimizer.zero_grad();
    const at::Tensor loss = at::cross_entropy_loss(net->forward(batch.pictures), batch.labels);
    losses.push_back(data.backward(loss, batch.size()));
    optimizer.step();
    if (step % 100 == 0) report.line("step %4ld  loss %.4f", static_cast<long>(step), losses.back());
  }

  const at::NoGradGuard no_gradient;
  const double accuracy = net->forward(test.pictures).argmax(1).eq(test.labels).to(at::kDouble).mean().item<double>();
  example::report_outcome(report, accuracy, test, losses);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run_on_digits(argc, argv, "A convolutional network on MNIST's digits, data parallel.", learn_digits);
}
