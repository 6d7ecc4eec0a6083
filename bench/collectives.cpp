// The collectives on threads, by size: time of one call and bytes that each rank gives per second.

#include <benchmark/benchmark.h>

#include <chrono>
#include <functional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/launch.hpp"

namespace {

using adjoin::Communicator;

using Call = std::function<void(const Communicator&, std::vector<float>& in, std::vector<float>& out)>;

/// Seconds that `calls` of one collective take, the ranks beginning together.
double seconds_of(int ranks, int64_t calls, int64_t bytes, const Call& call) {
  double seconds = 0;
  adjoin::launch_threads(ranks, [&](const Communicator& world) {
    std::vector<float> in(static_cast<size_t>(bytes) / sizeof(float)), out(in.size());
    call(world, in, out);
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; ++i) call(world, in, out);
    if (world.rank() == 0) seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  return seconds;
}

void measure(benchmark::State& state, const Call& call) {
  const auto ranks = static_cast<int>(state.range(0));
  const int64_t bytes = state.range(1), calls = std::max<int64_t>(5, (1 << 20) / bytes);
  for (auto _ : state) state.SetIterationTime(seconds_of(ranks, calls, bytes, call) / static_cast<double>(calls));
  state.SetBytesProcessed(state.iterations() * bytes);
}

adjoin::Buffer own_block(const Communicator& world, std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size()) / world.size();
  return adjoin::buffer(x).slice(n * world.rank(), n);
}

std::vector<int64_t> equal_counts(const Communicator& world, const std::vector<float>& x) {
  return std::vector<int64_t>(static_cast<size_t>(world.size()), static_cast<int64_t>(x.size()) / world.size());
}

void add(const char* name, const Call& call) {
  auto* benchmark = benchmark::RegisterBenchmark(name, measure, call);
  benchmark->ArgNames({"ranks", "bytes"})->UseManualTime()->Unit(benchmark::kMicrosecond);
  for (const int ranks : {2, 4})
    for (int64_t bytes = 64; bytes <= 64 << 20; bytes *= 4) benchmark->Args({ranks, bytes});
}

}  // namespace

int main(int argc, char** argv) {
  using Values = std::vector<float>;
  add("all_reduce", [](const Communicator& w, Values& x, Values&) { w.all_reduce(adjoin::buffer(x)); });
  add("broadcast", [](const Communicator& w, Values& x, Values&) { w.broadcast(adjoin::buffer(x), 0); });
  add("reduce", [](const Communicator& w, Values& x, Values& y) {
    w.reduce(adjoin::buffer(x), adjoin::buffer(y), adjoin::Reduction::sum, 0);
  });
  add("all_gather", [](const Communicator& w, Values& x, Values& y) {
    w.all_gather(own_block(w, x), adjoin::buffer(y), equal_counts(w, y));
  });
  add("reduce_scatter", [](const Communicator& w, Values& x, Values& y) {
    w.reduce_scatter(adjoin::buffer(x), own_block(w, y), equal_counts(w, x));
  });
  add("all_to_all", [](const Communicator& w, Values& x, Values& y) {
    w.all_to_all(adjoin::buffer(x), equal_counts(w, x), adjoin::buffer(y), equal_counts(w, y));
  });
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
