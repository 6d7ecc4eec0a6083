#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::measure {

/// The memory of one rank for float32 collectives whose largest buffer has `bytes` bytes. It holds zeros, which stay
/// zeros however often they are summed, and is aligned to cache lines as tensors are.
class Workload {
 public:
  Workload(const Communicator& world, int64_t bytes);

  /// One call of the collective on `world`, with rank 0 as the root; all_reduce is in place.
  void call(Collective collective) const;
  /// Writes the input again.
  void write() const;
  /// Copies `bytes` bytes from one buffer to the other: all ranks do this together to measure the limit.
  void copy() const;

  Buffer in() const { return {in_.get(), count_, ElementType::float32}; }
  Buffer out() const { return {out_.get(), count_, ElementType::float32}; }
  /// The elements of each rank's block; a remainder that the number of ranks does not divide is not used.
  int64_t block() const { return counts_[0]; }

 private:
  Buffer blocks_of(Buffer all) const { return all.slice(0, block() * world_.size()); }
  Buffer own_block_of(Buffer all) const { return all.slice(block() * world_.rank(), block()); }

  Communicator world_;
  int64_t count_;
  std::vector<int64_t> counts_;
  std::shared_ptr<void> in_, out_;
};

}  // namespace adjoin::measure
