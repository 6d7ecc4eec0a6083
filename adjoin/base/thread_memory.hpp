#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "adjoin/base/block_heap.hpp"

namespace adjoin {

/// Memory of this process, of which each thread has its own part. A thread gets back what it freed, which is still in its
/// core's caches and in no other core's. Nothing is returned to the system, which would zero each page before it gave it out
/// again.
///
/// Where there are more threads than parts, they share them. The part of a thread that ends goes to the next new thread. A fork
/// waits for other threads' operations here.
class ThreadMemory {
 public:
  static constexpr int kParts = 64;

  /// nullptr where the system refuses such a range of addresses (`ulimit -v`, vm.overcommit_memory 2), and under
  /// AddressSanitizer, which must see each block.
  static ThreadMemory* of_process();

  bool holds(const void* memory) const { return reinterpret_cast<uintptr_t>(memory) - begin_ < kBytes; }
  /// A block of this thread's part, aligned to 64 bytes; nullptr where there is no room or the machine has less memory than
  /// this.
  void* allocate(size_t bytes);
  /// May be called by any thread.
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
