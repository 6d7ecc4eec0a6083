#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/measure/timing.hpp"

namespace adjoin::measure {

/// Every collective, or those named in a comma-separated list.
/// Throws: InvalidArgument that lists the names
std::vector<Collective> collectives_from(std::string_view list);

struct Result {
  Collective collective = Collective::all_reduce;
  int ranks = 0;
  int64_t bytes = 0;     // of the largest buffer of each rank
  double median_us = 0;  // of one call
  double limit_us = 0;   // time of its least traffic at the machine's copy bandwidth; 0 for a barrier
};

/// Measures one collective of float32 on `world` for each size, with sum and root 0. Called by all ranks, and returns the same
/// result on all of them.
///
/// The limit comes from the same run: all ranks copy S bytes each at the same time, so 2 P S bytes are read and written, and
/// the limit is the time in which this bandwidth moves least_traffic. An implementation that keeps data in the caches that a
/// copy does not keep can be faster.
/// Throws: InvalidArgument where a size is below one element for each rank
std::vector<Result> measure_collective(const Communicator& world, Collective collective, std::span<const int64_t> sizes,
                                       const Effort& effort = {});

/// The bytes that any implementation must at least read and write on all ranks together, where the largest buffer of each rank
/// has `bytes` bytes: the output of gather and all_gather, the input of scatter, reduce_scatter and all_to_all.
///
///     all_reduce, in place   2 P S       every rank's buffer is read and written
///     broadcast              P S         one is read, the others are written
///     reduce                 (P + 1) S   all inputs are read, one output is written
///     gather, scatter        2 S         all blocks (S together) are read, and written once
///     all_gather             (P + 1) S   all blocks (S together) are read, and written everywhere
///     reduce_scatter         (P + 1) S   all inputs are read, all blocks (S together) are written
///     all_to_all             2 P S       all inputs are read, all outputs are written
///     barrier                0
int64_t least_traffic(Collective collective, int ranks, int64_t bytes);

/// The time for least_traffic where all ranks copy `bytes` bytes each at the same time in `copy_us`.
double limit_us(Collective collective, int ranks, int64_t bytes, double copy_us);

}  // namespace adjoin::measure
