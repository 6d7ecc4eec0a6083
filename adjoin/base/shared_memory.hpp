#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>

#include "adjoin/base/block_heap.hpp"
#include "adjoin/base/shared_file.hpp"

namespace adjoin {

/// A large range of addresses, the same in several processes of a host. Each process owns one part of it, allocates blocks from
/// the memory of that part, and reaches the parts of all others. So a pointer into the range means the same to all of them.
///
/// The memory of each part is a SharedFile. After fork() the child has a copy of its own part, which the fork waits for; it does
/// not reach the others' parts.
class SharedMemory {
 public:
  static constexpr int kMostProcesses = 512;

  // All processes create it together, in these steps; each step throws CommunicationError that says why it failed.

  /// Addresses where a range for `processes` processes may begin, to be tried in this order.
  static std::span<const uintptr_t> places();
  /// Reserves the range at `place`, without memory; nullptr where any of it is in use.
  static std::unique_ptr<SharedMemory> at(uintptr_t place, int processes);
  /// Makes part `own`, that of this process.
  SharedFile::Address make_part(int own);
  void attach(std::span<const SharedFile::Address> parts);
  /// Makes `memory` the one that current() returns, until this process ends.
  static void keep(std::unique_ptr<SharedMemory> memory);
  ~SharedMemory();

  /// nullptr where this process shares no memory.
  static SharedMemory* current();

  int processes() const { return processes_; }
  bool holds(const void* memory) const {
    return reinterpret_cast<uintptr_t>(memory) - begin_ < bytes_of_part_ * static_cast<size_t>(processes_);
  }
  /// A block of this process's part, aligned to 64 bytes, for any thread; nullptr where there is no room or the machine has
  /// less memory than this. Freed blocks are reused.
  void* allocate(size_t bytes) { return heap_->allocate(bytes); }
  void free(void* block) { heap_->free(block); }
  /// The same; throws std::bad_alloc.
  std::pmr::memory_resource& resource() { return resource_; }

  /// The core on which each process last ran, for ThreadCores.
  std::span<std::atomic<int>> cores() const;

 private:
  struct Head;
  class Fork;
  struct Resource final : std::pmr::memory_resource {
    explicit Resource(SharedMemory& of) : memory(of) {}
    void* do_allocate(size_t bytes, size_t alignment) override;
    void do_deallocate(void* block, size_t, size_t) override { memory.free(block); }
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
    SharedMemory& memory;
  };

  SharedMemory(uintptr_t begin, size_t bytes_of_part, int processes);
  void make_private();
  void* part(int process) const {
    return reinterpret_cast<void*>(begin_ + bytes_of_part_ * static_cast<size_t>(process));
  }

  const uintptr_t begin_;
  const size_t bytes_of_part_;
  const int processes_;
  int own_ = 0;
  std::optional<SharedFile> file_;  // of the own part; none in the child of a fork
  std::optional<BlockHeap> heap_;
  Resource resource_{*this};
};

}  // namespace adjoin
