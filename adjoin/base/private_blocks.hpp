#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "adjoin/base/block_heap.hpp"
#include "adjoin/base/shared_file.hpp"

namespace adjoin {

/// Blocks in a range of this process's part of the shared memory, each of whole pages that are private to this process until the
/// block is shared, at the same address. So a fork copies only what was shared, and large pages serve what is not.
class PrivateBlocks {
 public:
  /// Smaller blocks are not worth pages of their own.
  static constexpr size_t kLeast = 64 << 10;

  /// The range [begin, begin + bytes), of which `file` has the shared pages from its byte `offset` on. Its first `unused` bytes are
  /// not given out.
  PrivateBlocks(const SharedFile& file, void* begin, size_t bytes, size_t offset, size_t unused);

  bool holds(const void* memory) const { return reinterpret_cast<uintptr_t>(memory) - begin_ < bytes_; }
  /// nullptr where there is no room. A block that contains pages which were shared before is shared.
  void* allocate(size_t bytes);
  void free(void* block);

  /// Whether other processes reach the block that `memory`, in this range, is in.
  bool is_shared(const void* memory) const { return is_set(shared_, page_of(memory)); }
  /// Shares the block that begins at `memory`, where `bytes` were asked for; false where there is no such block, or no room.
  /// No other thread writes the block meanwhile. Cost: the first time a copy of the block
  bool share(const void* memory, size_t bytes);

  /// Around a fork: nothing changes in between.
  void lock();
  void unlock();
  /// In the child of a fork: nothing is shared any more. Calls `make_private(begin, end)` for each range of bytes of the file that was.
  template <class Action>
  void end_sharing(Action make_private) {
    for (size_t page = 0; page < pages(); ++page) {
      if (page % 64 == 0 && shared_[page / 64].load() == 0) {
        page += 63;
        continue;
      }
      const size_t first = page;
      while (page < pages() && is_set(shared_, page)) set(shared_, page++, false);
      if (page > first) make_private(offset_ + first * kPage, offset_ + page * kPage);
    }
  }

 private:
  static constexpr size_t kPage = 4096;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  /// A bit for each page. Pages of it that are all zero take no memory.
  using Bits = std::unique_ptr<std::atomic<uint64_t>[], Free>;

  static bool is_set(const Bits& bits, size_t page) {
    return (bits[page / 64].load(std::memory_order_relaxed) >> (page % 64) & 1) != 0;
  }
  static void set(const Bits& bits, size_t page, bool value);
  Bits bits() const { return Bits(static_cast<std::atomic<uint64_t>*>(std::calloc(pages() / 64 + 1, 8))); }
  size_t pages() const { return bytes_ / kPage; }
  size_t page_of(const void* memory) const { return (reinterpret_cast<uintptr_t>(memory) - begin_) / kPage; }
  bool map_shared(size_t first, size_t pages);

  const uintptr_t begin_;
  const size_t bytes_, offset_;
  const int file_;
  std::mutex mutex_;  // of the bits and the mapping
  BlockHeap heap_;    // a block's size is in the page in front of it
  const Bits shared_, starts_;
};

}  // namespace adjoin
