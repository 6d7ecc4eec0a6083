// Each rank holds a shard of any module (ZeRO stage 3), as docs/data-parallelism.md shows. The network, whose three branches share
// weights, learns MNIST's digits, is saved, and goes on from what a different number of ranks has saved.

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <CLI/App.hpp>
#include <filesystem>

#include "adjoin/data/sampler.hpp"
#include "adjoin/nn/seeded.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/moments.hpp"
#include "adjoin/parallel/weights.hpp"
#include "adjoin/partition/split.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "examples/support/digits.hpp"

using namespace adjoin;

namespace {

/// Three branches: the second and the third share a layer, which the third applies twice.
struct Net : torch::nn::Module {
  Net()
      : in(register_module("in", torch::nn::Linear(28 * 28, 64))),
        own(register_module("own", torch::nn::Linear(64, 64))),
        shared(register_module("shared", torch::nn::Linear(64, 64))),
        out(register_module("out", torch::nn::Linear(64, 10))) {}
  at::Tensor forward(const at::Tensor& pictures) {
    const at::Tensor x = in(pictures.flatten(1)).relu();
    return out(own(x).relu() + shared(x).tanh() + shared(shared(x).relu()).relu());
  }

  torch::nn::Linear in, own, shared, out;
};

/// This rank's own part of a batch; the parts need not be equal, and may be empty.
example::Digits part_of(const example::Digits& batch, const Communicator& world) {
  const Range mine = Split::balanced(batch.size(), world.size(), /*dim=*/0).ranges(world.rank())[0];
  return batch.part(mine.begin, mine.end);
}

/// Folders of checkpoints; an empty path means none.
struct Folders {
  std::string load, save;
};

void learn_digits(const Communicator& world, const example::DigitsOptions& options, const Folders& folders,
                  example::Report& report) {
  const auto [train, test] = example::read_digits(options);
  data::Sampler sampler({.samples = train.size(), .batch = example::kDigitsOfStep, .seed = 1});
  std::vector<double> losses;

  const auto net = nn::seeded(/*seed=*/1, [] { return std::make_shared<Net>(); });
  net->to(train.pictures.scalar_type());
  parallel::Weights weights(*net, world, {.zero = 3});
  torch::optim::AdamW optimizer(weights.parts(), torch::optim::AdamWOptions(2e-3));

  // All that a run needs to go on, as pieces of global tensors.
  const at::Tensor steps_taken = at::zeros({}, at::kLong);
  std::vector<nn::Parameter> state = parallel::state_of(optimizer, weights.trained());
  state.push_back(nn::held_by_all("steps_taken", steps_taken, weights.grid()));
  if (const std::filesystem::path folder = folders.load; !folder.empty()) {
    train::load_state(folder / "model.safetensors", weights.parameters());
    train::load_state(folder / "optimizer.safetensors", state);
  }
  const auto before = steps_taken.item<int64_t>(), after = before + example::steps_of(options);
  for (int64_t step = 0; step < before; ++step) sampler.next();  // an earlier run has learned from these batches

  if (!folders.save.empty()) std::filesystem::create_directories(folders.save);  // may fail, so before training
  for (int64_t step = before; step < after; ++step) {
    const example::Digits batch = part_of(train.chosen(sampler.next()), world);
    const at::Tensor loss = at::cross_entropy_loss(net->forward(batch.pictures), batch.labels);
    losses.push_back(weights.backward(loss, batch.size()));
    weights.step(optimizer, /*clip=*/1);
    if (step % 100 == 0) report.line("step %4ld  loss %.4f", static_cast<long>(step), losses.back());
  }

  steps_taken.fill_(after);
  if (const std::filesystem::path folder = folders.save; !folder.empty()) {
    train::save_state(folder / "model.safetensors", weights.parameters(), weights.grid());
    train::save_state(folder / "optimizer.safetensors", state, weights.grid());
  }

  const at::NoGradGuard no_gradient;
  const double accuracy = net->forward(test.pictures).argmax(1).eq(test.labels).to(at::kDouble).mean().item<double>();
  example::report_outcome(report, accuracy, test, losses);
}

}  // namespace

int main(int argc, char** argv) {
  Folders folders;
  const auto add_options = [&](CLI::App& app) {
    app.add_option("--load", folders.load, "Go on from what any number of ranks saved here")->option_text("DIR");
    app.add_option("--save", folders.save, "Folder for the weights and moments at the end")->option_text("DIR");
  };
  return example::run_on_digits(
      argc, argv, "A network on MNIST's digits, of which each rank holds a shard.",
      [&](const Communicator& world, const example::DigitsOptions& options, example::Report& report) {
        learn_digits(world, options, folders, report);
      },
      add_options);
}
