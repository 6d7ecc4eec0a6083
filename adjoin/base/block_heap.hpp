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

/// Memory of this machine.
size_t bytes_of_machine();

/// Cuts blocks out of a range of addresses, for any threads, and keeps what is freed for the next ones. A block is the smallest
/// hole that is large enough; holes that touch become one. Blocks up to kSmall are kept by their sizes instead.
class BlockHeap {
 public:
  static constexpr size_t kLine = 64;

  /// The range begins at a multiple of kLine.
  BlockHeap(void* begin, size_t bytes);

  /// At least so many bytes, at a multiple of kLine; nullptr where there is no hole for them, or no machine has so much memory.
  /// Cost: some tens of nanoseconds up to kSmall, else some hundreds; a line in front of the block.
  void* allocate(size_t bytes);
  void free(void* block);

  /// Held while the memory is copied.
  std::mutex& mutex() { return mutex_; }

 private:
  static constexpr size_t kSmall = 4096, kChunk = 64 << 10;
  using Address = uintptr_t;

  Address take(size_t bytes);
  void give_back(Address begin, size_t bytes);
  void add_hole(Address begin, size_t bytes);
  void remove_hole(std::map<Address, size_t>::iterator hole);

  std::mutex mutex_;
  std::map<Address, size_t> holes_;
  std::set<std::pair<size_t, Address>> by_size_;
  std::vector<decltype(holes_)::node_type> spare_holes_;  // so that nothing is allocated again and again
  std::vector<decltype(by_size_)::node_type> spare_sizes_;
  std::array<Address, kSmall / kLine + 1> small_ =
      {};  // the first free block of each number of lines; it names the next
};

}  // namespace adjoin
