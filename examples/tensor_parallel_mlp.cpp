// A two-layer network that workers hold together: each of 4 has a quarter of its hidden features.

#include <cstdio>

#include "adjoin/adjoin.hpp"

using namespace adjoin;

void learn_a_sine(const Communicator& world) {
  const Grid grid(world, {{"tp", world.size()}});  // all workers see the same batch
  nn::ColRow mlp(nn::ColRowOptions{.in_features = 1, .hidden_features = 64, .out_features = 1}, grid, "tp");
  nn::initialize(*mlp, /*seed=*/1);  // the same global weights for every number of workers
  parallel::Optimizer optimizer(nn::parameters_of(*mlp), parallel::adamw(), {.weight_decay = 0.01});

  const at::Tensor x = at::linspace(-3, 3, 128).unsqueeze(1), y = x.sin();
  for (int step = 0; step <= 300; ++step) {
    const at::Tensor loss = at::mse_loss(mlp(x, ForwardPass{{.number = step, .training = true}}), y);
    loss.backward();
    optimizer.step(/*learning_rate=*/0.01);
    if (step % 100 == 0 && world.rank() == 0) std::printf("step %3d  loss %.5f\n", step, loss.item<double>());
  }
}

int main() {
  launch(4, learn_a_sine);  // on 4 threads, or with mpirun -n 4 on 4 processes
}
