// build/release/bench/bench_experts [rows features turns]
//
// The time of a layer of one expert over that of a feed-forward layer, forward and backward, in turns.

#include <ATen/ops/randn.h>

#include <cstdio>
#include <cstdlib>

#include "adjoin/comm/launch.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/nn/mixture_of_experts.hpp"

using namespace adjoin;

namespace {

void measure_experts(const Communicator& world, int64_t rows, int64_t features, int turns) {
  const Grid grid(world, {{"tp", world.size()}});
  nn::ColRow plain(nn::feed_forward(features), grid, "tp");
  nn::MixtureOfExperts experts(
      nn::MixtureOfExpertsOptions{
          .features = features, .hidden_features = 4 * features, .balance_loss = 0.01, .z_loss = 0.001},
      grid, "tp");
  nn::initialize(*plain, 1);
  nn::initialize(*experts, 1);
  const at::Tensor x = at::randn({rows, features}).requires_grad_(true);
  const ForwardPass pass{.step = {.training = true, .loss_share = 1e-3},
                         .rows = LocalTokenRows(TokenRows::balanced({rows}, 1))};
  const auto contender = [&](auto& layer) {
    return measure::Contender{{[layer, x, pass]() mutable {
      layer->zero_grad();
      layer->forward(x, pass).sum().backward();
    }}};
  };
  const measure::Effort effort{.turns = turns, .least_turns = turns};
  const std::vector contenders{contender(plain), contender(experts)};
  const auto times = measure::time_in_turns(world, contenders, effort);
  if (world.rank() == 0)
    std::printf("feed-forward %.1f ms, one expert %.1f ms: %.3f\n", 1e3 * measure::median(times[0].all),
                1e3 * measure::median(times[1].all), measure::median(times[1].all) / measure::median(times[0].all));
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 4096, features = argc > 2 ? std::atoll(argv[2]) : 256;
  const int turns = argc > 3 ? std::atoi(argv[3]) : 20;
  if (rows < 1 || features < 1 || turns < 1) {
    std::fprintf(stderr, "usage: bench_experts [rows features turns]\n");
    return 2;
  }
  launch(1, [&](const Communicator& world) { measure_experts(world, rows, features, turns); });
}
