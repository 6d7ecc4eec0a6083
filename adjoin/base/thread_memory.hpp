#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "adjoin/base/block_heap.hpp"

namespace adjoin {

/// Memory of this process of which each thread has a part. What a thread frees it gets again, while its core's caches have it still
/// and no other core's; and nothing goes back to the system, from which each page would come again zeroed.
///
/// More threads than there are parts share them. A part that a thread leaves is the next new thread's. A fork waits for what other
/// threads do here.
class ThreadMemory {
 public:
  static constexpr int kParts = 64;

  /// nullptr where the system gives no such range of addresses (`ulimit -v`, vm.overcommit_memory 2), and under AddressSanitizer,
  /// which is to see each block.
  static ThreadMemory* of_process();

  bool holds(const void* memory) const { return reinterpret_cast<uintptr_t>(memory) - begin_ < kBytes; }
  /// A block of this thread's part, at a multiple of 64; nullptr where there is no room, or no machine has so much memory.
  void* allocate(size_t bytes);
  /// By any thread.
  void free(void* block) { heaps_[(reinterpret_cast<uintptr_t>(block) - begin_) / kBytesOfPart].free(block); }

 private:
  // Of addresses.
  static constexpr size_t kBytesOfPart = size_t{256} << 30, kBytes = kBytesOfPart * kParts;

  explicit ThreadMemory(void* begin);
  static void lock_all();
  static void unlock_all();

  uintptr_t begin_;
  std::deque<BlockHeap> heaps_;
};

}  // namespace adjoin
