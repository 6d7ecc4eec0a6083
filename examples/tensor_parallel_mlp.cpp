// A two-layer network that workers hold together: each of 4 has a quarter of its hidden features.

#include <ATen/ATen.h>

#include "adjoin/nn/col_row.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

void learn_a_sine(const Communicator& world, example::Report& report) {
  const Grid grid(world, {{"tp", world.size()}});  // all workers see the same batch
  nn::ColRow mlp(nn::ColRowOptions{.in_features = 1, .hidden_features = 64, .out_features = 1}, grid, "tp");
  nn::initialize(*mlp, /*seed=*/1);  // the same global weights for every number of workers
  parallel::Optimizer optimizer(nn::parameters_of(*mlp), parallel::adamw(), {.weight_decay = 0.01});

  const at::Tensor x = at::linspace(-3, 3, 128).unsqueeze(1), y = x.sin();
  double loss_now = 0;
  for (int step = 0; step <= 300; ++step) {
    const at::Tensor loss = at::mse_loss(mlp(x, StepContext{.step = step, .training = true}), y);
    loss.backward();
    optimizer.step(/*learning_rate=*/0.01);
    loss_now = loss.item<double>();
    if (step % 100 == 0) report.line("step %3d  loss %.5f", step, loss_now);
  }
  example::ensure(loss_now < 0.01, "the network has not learned the sine");
  report.value("loss", loss_now);
}

int main(int argc, char** argv) {  // launch(4, learn_a_sine), but for what --ranks, --backend and --json say
  return example::run(argc, argv, {"A two-layer network that workers hold together."}, learn_a_sine);
}
