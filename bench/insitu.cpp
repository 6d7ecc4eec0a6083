// mpirun -n 2 --bind-to none build/release/bench/bench_insitu CELLS [CHANNELS TURNS]
//
// A training step on the blocks of one domain over the same step on each rank's block alone, in turns: the processor's time of a
// rank, and the bytes of tensors at once. CELLS is of each side of a rank's cube; three convolutions, float32. Then the time of an
// inference of one small layer. Without mpirun, two threads.

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "adjoin/comm/launch.hpp"
#include "adjoin/insitu/pass.hpp"
#include "adjoin/insitu/training.hpp"
#include "adjoin/lab/measure/stopwatch.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/movement/peak_memory.hpp"

using namespace adjoin;
using insitu::Blocks;

namespace {

std::string network_of(int64_t channels) {
  const std::string out = R"({"type": "conv", "out": )" + std::to_string(channels) + "}";
  return R"({"inputs": 16, "layers": [)" + out + R"(, "gelu", )" + out + R"(, "gelu", {"type": "conv", "out": 1}]})";
}

/// One training of a network, of which a step is measured.
struct Trained {
  Trained(const Communicator& world, int64_t cells, int64_t channels)
      : blocks(world, insitu::DimOrder::rows_first, {cells * world.size(), cells, cells}, {cells * world.rank(), 0, 0},
               {cells, cells, cells}),
        network(blocks, network_of(channels), at::kFloat, 1),
        training(network, R"({"rate": 1e-3})"),
        x(at::randn({1, 16, cells, cells, cells})),
        target(at::randn({1, 1, cells, cells, cells})) {}

  void step(const Communicator& world) {
    const DistributedTensor input = network.input(1);
    input.local.copy_(x);
    insitu::Pass pass(network, input, {});
    insitu::Pass::PartOfLoss part = pass.part_of_loss(insitu::loss_named("mse", 1), target, {});
    world.all_reduce(buffer(part.sums));
    pass.set_loss(part);
    pass.backward();
    training.step({});
  }

  Blocks blocks;
  insitu::Network network;
  insitu::Training training;
  at::Tensor x, target;
};

void measure_steps(const Communicator& world, int64_t cells, int64_t channels, int turns) {
  const Communicator self;
  Trained together(world, cells, channels), alone(self, cells, channels);
  std::vector<double> times[2];
  std::array<int64_t, 2> bytes{};
  for (int turn = -3; turn < turns; ++turn)
    for (const size_t which : {0, 1}) {
      world.barrier();
      const PeakMemory memory;
      measure::Stopwatch watch;
      which == 0 ? together.step(world) : alone.step(self);
      const double time = watch.lap().processor;
      if (turn < 0) continue;
      times[which].push_back(time);
      bytes[which] = memory.peak_bytes();
    }
  std::array<double, 2> medians{measure::median(times[0]), measure::median(times[1])};
  world.all_reduce(buffer(medians));  // the mean over the ranks, between which the cost of sums differs
  if (world.rank() > 0) return;
  const double ranks = world.size();
  std::printf("%ld^3 cells a rank, %d ranks: together %.2f ms, alone %.2f ms: %.3f; %.2f MiB more of %.2f MiB\n",
              static_cast<long>(cells), world.size(), 1e3 * medians[0] / ranks, 1e3 * medians[1] / ranks,
              medians[0] / medians[1], static_cast<double>(bytes[0] - bytes[1]) / (1 << 20),
              static_cast<double>(bytes[1]) / (1 << 20));
}

void measure_inference() {
  const Blocks blocks(Communicator(), insitu::DimOrder::rows_first, {8}, {0}, {8});
  insitu::Network network(blocks, R"({"inputs": 1, "layers": [{"type": "linear", "out": 1}]})", at::kFloat, 1);
  const DistributedTensor input = network.input(1);
  input.local.normal_();
  std::vector<double> times;
  for (int turn = 0; turn < 20; ++turn) {
    measure::Stopwatch watch;
    for (int i = 0; i < 500; ++i) const insitu::Pass pass(network, input, {.trains = false, .records = false});
    times.push_back(watch.lap().processor / 500);
  }
  std::printf("an inference of one layer on 8 cells: %.1f us\n", 1e6 * measure::median(times));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_insitu CELLS [CHANNELS TURNS]\n");
    return 2;
  }
  launch(2, [&](const Communicator& world) {
    measure_steps(world, std::atoll(argv[1]), argc > 2 ? std::atoll(argv[2]) : 16, argc > 3 ? std::atoi(argv[3]) : 20);
    if (world.rank() == 0) measure_inference();
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_insitu: %s\n", error.what());
  return 1;
}
