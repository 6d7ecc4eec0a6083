#pragma once

#include <cstdint>
#include <functional>

#include "adjoin/partition/split.hpp"

namespace adjoin::nn::fixed {

/// Calls `compute(range)` for pieces of [0, size) that begin at multiples of `unit`, on LibTorch's threads. In each call LibTorch and
/// MKL have one thread, also for what they choose by the number of threads; no operation records a graph.
void on_one_thread_each(int64_t size, int64_t unit, const std::function<void(Range piece)>& compute);

}  // namespace adjoin::nn::fixed
