// A module of one's own, as torch::nn writes it, trained data parallel: each worker has all of it and a part of the batch.
// docs/own-module.md explains it.

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <string>

#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/seeded.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "adjoin/partition/split.hpp"

using namespace adjoin;

namespace {

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(1, 32))),
        out(register_module("out", torch::nn::Linear(32, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return out(hidden(x).tanh()); }

  torch::nn::Linear hidden, out;
};

void learn_a_sine(const Communicator& world) {
  const Grid grid(world, {{"dp", world.size()}});
  const auto net = nn::seeded(/*seed=*/1, [] { return std::make_shared<Net>(); });
  const auto parameters = nn::parameters_of(*net, grid);
  torch::optim::SGD optimizer(net->parameters(), /*lr=*/0.1);

  const at::Tensor all = at::linspace(-3, 3, 130).unsqueeze(1);
  const Split samples = Split::balanced(all.size(0), world.size(), /*dim=*/0);
  const at::Tensor x = all.narrow(0, samples.offset(world.rank()), samples.size(world.rank())), y = x.sin();

  for (int step = 0; step <= 400; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = at::mse_loss(net->forward(x), y, at::Reduction::Sum) / all.size(0);
    loss.backward();
    parallel::sum_gradients(parameters);
    optimizer.step();

    double whole = loss.item<double>();
    world.all_reduce(buffer(whole));
    if (step % 100 == 0 && world.rank() == 0) std::printf("step %3d  loss %.4f\n", step, whole);
  }
}

}  // namespace

int main(int argc, char** argv) {
  launch(argc > 1 ? std::stoi(argv[1]) : 4, learn_a_sine);
}
