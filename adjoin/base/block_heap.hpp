#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace adjoin {

/// The size of this machine's memory, in bytes.
size_t bytes_of_machine();

/// Allocates blocks from a range of addresses, for any thread, and reuses freed ones. A block is cut from the smallest hole
/// that is large enough; adjacent holes are merged. Freed blocks of up to kSmall bytes are instead kept in one list per size.
class BlockHeap {
 public:
  static constexpr size_t kLine = 64;
  /// Heaps of several ranks begin this far apart, modulo large powers of two. Ranks make the same tensors, and AMD's cores
  /// cannot keep lines of the same offset in two such ranges in the first-level cache at once, so that an all-reduce would take
  /// up to 9 times as long: they find a line by a hash of its address (M. Lipp et al., Take A Way, 2020, section 3). It is an
  /// odd number of pages so that what one rank allocates more than another hardly ever undoes it.
  static constexpr size_t kApart = 37 * 4096;

  /// The range begins at a multiple of `unit`, kLine or more than kSmall / 2, to which blocks are aligned.
  BlockHeap(void* begin, size_t bytes, size_t unit = kLine);

  /// At least `bytes` bytes; nullptr where no hole is large enough or the machine has less memory than this.
  /// Cost: tens of nanoseconds up to kSmall, hundreds above it; one unit in front of the block.
  void* allocate(size_t bytes);
  void free(void* block);

  /// Locked while a fork copies the memory.
  std::mutex& mutex() { return mutex_; }

 private:
  static constexpr size_t kSmall = 4096, kChunk = 64 << 10;
  using Address = uintptr_t;

  Address take(size_t bytes);
  void give_back(Address begin, size_t bytes);
  void add_hole(Address begin, size_t bytes);
  void remove_hole(std::map<Address, size_t>::iterator hole);

  const size_t unit_;
  std::mutex mutex_;
  std::map<Address, size_t> holes_;
  std::set<std::pair<size_t, Address>> by_size_;
  std::vector<decltype(holes_)::node_type> spare_holes_;  // nodes kept for reuse, so that maps need not allocate
  std::vector<decltype(by_size_)::node_type> spare_sizes_;
  std::array<Address, kSmall / kLine + 1> small_ =
      {};  // for each number of lines the first free block, which stores the address of the next
};

}  // namespace adjoin
