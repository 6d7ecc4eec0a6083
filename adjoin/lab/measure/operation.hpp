#pragma once

#include <cstdint>
#include <string_view>

namespace adjoin::measure {

/// The collectives that are measured.
enum class Operation : uint8_t {
  all_reduce,
  broadcast,
  reduce,
  gather,
  scatter,
  all_gather,
  reduce_scatter,
  all_to_all,
  barrier
};

inline constexpr Operation kOperations[] = {Operation::all_reduce,     Operation::broadcast,  Operation::reduce,
                                            Operation::gather,         Operation::scatter,    Operation::all_gather,
                                            Operation::reduce_scatter, Operation::all_to_all, Operation::barrier};

std::string_view name(Operation operation);
/// Throws: InvalidArgument that lists the names
Operation operation_named(std::string_view name);

/// Bytes that any implementation reads and writes at least on all ranks together, where the largest buffer of each rank
/// has `bytes` of them: the output of gather and all_gather, the input of scatter, reduce_scatter and all_to_all.
///
///     all_reduce, in place   2 P S       every rank's buffer is read and written
///     broadcast              P S         one is read, the others are written
///     reduce                 (P + 1) S   all inputs are read, one output is written
///     gather, scatter        2 S         all blocks (S together) are read, and written once
///     all_gather             (P + 1) S   all blocks (S together) are read, and written everywhere
///     reduce_scatter         (P + 1) S   all inputs are read, all blocks (S together) are written
///     all_to_all             2 P S       all inputs are read, all outputs are written
///     barrier                0
int64_t least_traffic(Operation operation, int ranks, int64_t bytes);

}  // namespace adjoin::measure
