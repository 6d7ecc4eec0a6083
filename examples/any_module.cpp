// A plain module of LibTorch, whose code knows nothing of workers, on many of them, as docs/any-module.md shows. It learns MNIST's
// digits: batches are cut over "dp", and where the ranks are even in number its weights over "tp".

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adamw.h>

#include <CLI/App.hpp>

#include "adjoin/data/sampler.hpp"
#include "adjoin/nn/seeded.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "examples/support/digits.hpp"

using namespace adjoin;

namespace {

struct Net : torch::nn::Module {
  Net()
      : in(register_module("in", torch::nn::Linear(28 * 28, 60))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({60})))),
        up(register_module("up", torch::nn::Linear(60, 128))),
        down(register_module("down", torch::nn::Linear(128, 60))),
        out(register_module("out", torch::nn::Linear(60, 10))) {}
  at::Tensor forward(const at::Tensor& pictures) {
    at::Tensor x = in(pictures.flatten(1)).relu_();
    x = x + at::dropout(down(at::gelu(up(norm(x)))), /*p=*/0.1, is_training());
    return out(x);
  }

  torch::nn::Linear in;
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down, out;
};

void learn_digits(const Communicator& world, const example::DigitsOptions& options, example::Report& report) {
  const auto [train, test] = example::read_digits(options);
  data::Sampler sampler({.samples = train.size(), .batch = example::kDigitsOfStep, .seed = 1});
  std::vector<double> losses;

  const auto net = nn::seeded(/*seed=*/1, [] { return std::make_shared<Net>(); });
  net->to(train.pictures.scalar_type());

  const int tp = world.size() % 2 == 0 ? 2 : 1;
  const Grid grid(world, {{"dp", world.size() / tp}, {"tp", tp}});
  auto model = parallel::distribute(
      net, grid,
      {.weights = {{"up.*", "outputs over tp"}, {"down.weight", "inputs over tp"}}, .inputs = {"samples over dp"}});
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(2e-3));
  for (int64_t step = 0; step < example::steps_of(options); ++step) {
    const example::Digits batch = train.chosen(sampler.next());  // the whole one, on every rank
    const at::Tensor scores = model.forward({.seed = 1, .number = step}, batch.pictures);
    const at::Tensor loss = at::cross_entropy_loss(scores, batch.labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
    if (step % 100 == 0) report.line("step %4ld  loss %.4f", static_cast<long>(step), losses.back());
  }

  const at::NoGradGuard no_gradient;
  net->eval();
  const at::Tensor right = model.forward({}, test.pictures).argmax(1).eq(test.labels);
  example::report_outcome(report, right.to(at::kDouble).mean().item<double>(), test, losses);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run_on_digits(argc, argv, "A plain module on MNIST's digits, whose weights and batches are cut.",
                                learn_digits);
}
