// build/release/bench/bench_device_collectives [DEVICE]     "cuda" by default
//
// Sums tensors of ranks that are threads and share devices, and copies as many bytes: a sum of P ranks reads P tensors and writes P,
// as all ranks' copies do. Prints the medians, and how much of the copies' speed the sums have.

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <exception>
#include <functional>

#include "adjoin/comm/launch.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/movement/device_runtime.hpp"
#include "adjoin/movement/rank_device.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

using namespace adjoin;

namespace {

constexpr int64_t kTurns = 11, kCalls = 20;  // calls are enqueued one after another, and then waited for

void time_sums(const Communicator& world, const char* device, int64_t bytes) {
  const at::Tensor x = at::zeros({bytes / 4}, at::device(device_of(device, world))), y = at::empty_like(x);
  const auto seconds = [&](const std::function<void()>& call) {
    call();
    return measure::median_seconds(kTurns, world,
                                   [&] {
                                     for (int64_t i = 0; i < kCalls; ++i) call();
                                     synchronize(x.device());
                                   }) /
           kCalls;
  };
  const double of_sum = seconds([&] { world.all_reduce(buffer(x)); }), of_copy = seconds([&] { y.copy_(x); });
  if (world.rank() == 0)
    std::printf("%5d  %8.0f KiB  %10.1f us  %10.1f us  %6.2f\n", world.size(), static_cast<double>(bytes) / 1024,
                of_sum * 1e6, of_copy * 1e6, of_copy / of_sum);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const device = argc > 1 ? argv[1] : "cuda";
  std::printf("ranks         size     all_reduce          copy  copy / all_reduce\n");
  try {
    for (const int ranks : {2, 4})
      launch_threads(ranks, [&](const Communicator& world) {
        for (int64_t bytes = 4 << 10; bytes <= 256 << 20; bytes *= 4) time_sums(world, device, bytes);
      });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_device_collectives: %s\n", error.what());
    return 1;
  }
}
