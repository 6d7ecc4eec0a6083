#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/measure/operation.hpp"
#include "adjoin/lab/measure/timing.hpp"

namespace adjoin::measure {

struct Result {
  Operation operation = Operation::all_reduce;
  int ranks = 0;
  int64_t bytes = 0;     // of the largest buffer of each rank
  double median_us = 0;  // of one call
  double limit_us = 0;   // that of its least traffic at the machine's copy bandwidth; 0 for a barrier
};

/// Measures one collective of float32 on `world` for each size, with sum and root 0. Called by all ranks, and gives all
/// of them the same.
///
/// The limit comes from the same run: while all ranks copy as many bytes each at once, 2 P S bytes are read and written,
/// and the limit is the time in which this bandwidth moves least_traffic. An implementation that keeps in the caches what
/// a copy does not can be faster.
/// Throws: InvalidArgument where a size is below one element for each rank
std::vector<Result> measure_collective(const Communicator& world, Operation operation, std::span<const int64_t> sizes,
                                       const Effort& effort = {});

/// Time for least_traffic where the ranks copy `bytes` bytes each at once in `copy_us`.
double limit_us(Operation operation, int ranks, int64_t bytes, double copy_us);

}  // namespace adjoin::measure
