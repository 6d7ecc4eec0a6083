// build/release/bench/bench_overlap [ranks turns]
//
// Times the sums of gradients in a step of DataParallel, within backward and beside it. The network takes 12.5 ms for each of
// eight equal buckets, backward takes 25 ms for each layer. Prints the medians, minus the time of a backward without messages.

#include <ATen/ops/ones.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "adjoin/comm/launch.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/parallel/data_parallel.hpp"

using namespace adjoin;
using namespace std::chrono_literals;

namespace {

constexpr int64_t kLayers = 8, kFeatures = 256;

/// Makes each sum of a bucket take longer.
struct SlowNetwork : Observer {
  void end(const Call& call) override {
    if (call.collective == Collective::all_reduce && call.in.count == kFeatures * kFeatures)
      std::this_thread::sleep_for(12500us);
  }
};

/// A loss of the layers, each of which takes a fixed time in backward.
at::Tensor loss_of(torch::nn::Sequential& net) {
  at::Tensor x = at::ones({1, kFeatures});
  for (const auto& layer : net->children()) {
    x = layer->as<torch::nn::Linear>()->forward(x);
    x.register_hook([](const at::Tensor&) { std::this_thread::sleep_for(25ms); });
  }
  return x.mean();
}

void measure_overlap(const Communicator& world, int turns) {
  using Overlap = parallel::DataParallelOptions::Overlap;
  std::vector<torch::nn::Sequential> nets;
  std::vector<std::unique_ptr<parallel::DataParallel>> loops;
  std::vector<measure::Contender> contenders;
  const auto add = [&](const Communicator& group, Overlap overlap) {
    torch::nn::Sequential& net = nets.emplace_back();
    for (int64_t i = 0; i < kLayers; ++i)
      net->push_back(torch::nn::Linear(torch::nn::LinearOptions(kFeatures, kFeatures).bias(false)));
    parallel::DataParallelOptions options{.overlap = overlap, .bucket_bytes = 1};
    loops.push_back(std::make_unique<parallel::DataParallel>(*net, group, options));
    contenders.push_back({{[net, data = loops.back().get()]() mutable {
      net->zero_grad();
      data->backward(loss_of(net), 1);
    }}});
  };
  const Communicator slow = world.observed_by(std::make_shared<SlowNetwork>());
  add(Communicator(), Overlap::off);
  add(slow, Overlap::off);
  add(slow, Overlap::on);
  const measure::Effort effort{.turns = turns, .least_turns = turns, .turn_seconds = 0};
  const auto times = measure::time_in_turns(world, contenders, effort);
  const double alone = measure::median(times[0].all);
  if (world.rank() == 0)
    std::printf("backward %.1f ms; sums within it cost %.1f ms more, beside it %.1f ms more\n", 1e3 * alone,
                1e3 * (measure::median(times[1].all) - alone), 1e3 * (measure::median(times[2].all) - alone));
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2, turns = argc > 2 ? std::atoi(argv[2]) : 20;
  if (ranks < 1 || turns < 1) {
    std::fprintf(stderr, "usage: bench_overlap [ranks turns], or under mpirun\n");
    return 2;
  }
  launch(ranks, [&](const Communicator& world) { measure_overlap(world, turns); });
}
