#pragma once

#include <cstdint>
#include <functional>

#include "adjoin/partition/split.hpp"

namespace adjoin {

// Loops on the threads that a rank has for LibTorch's operations (LaunchOptions::threads_per_rank). at::parallel_for itself runs on
// one thread wherever it is not compiled with OpenMP, as this library is not.

/// Calls `work(part)` for parts of [0, size), of at least `grain` if there is more than one. Returns when all have returned.
/// Throws: what `work` throws
void on_threads(int64_t size, int64_t grain, const std::function<void(Range part)>& work);

/// Calls `compute(piece)` for pieces of [0, size) that begin at multiples of `unit`. In each call LibTorch and MKL have one thread,
/// also for what they choose by the number of threads; no operation records a graph.
void on_one_thread_each(int64_t size, int64_t unit, const std::function<void(Range piece)>& compute);

}  // namespace adjoin
