#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "adjoin/base/block_heap.hpp"
#include "adjoin/base/private_blocks.hpp"
#include "adjoin/base/shared_file.hpp"

namespace adjoin {

/// A large range of addresses, the same in several processes of a host. Each process owns one part of it, allocates blocks from
/// the memory of that part, and reaches the parts of all others. So a pointer into the range means the same to all of them.
///
/// The memory of each part is a SharedFile. After fork() the child has a copy of its own part, which the fork waits for; it does
/// not reach the others' parts. Of processes that met as they were, large blocks of tensors are shared when share() is first called
/// for them, so a fork copies no others.
class SharedMemory {
 public:
  static constexpr int kMostProcesses = 512;

  // Processes that begin together create it together, in these steps; each step throws CommunicationError that says why it
  // failed.

  /// Addresses where a range for `processes` processes may begin, to be tried in this order.
  static std::span<const uintptr_t> places();
  /// Reserves the range at `place`, without memory; nullptr where any of it is in use.
  static std::unique_ptr<SharedMemory> at(uintptr_t place, int processes);
  /// Makes part `own`, that of this process.
  SharedFile::Address make_part(int own) { return make_part(own, bytes_of_part_); }
  void attach(std::span<const SharedFile::Address> parts);

  /// For a process that meets others later, and not always the same ones: a range with room for kMostAlone processes, of which
  /// it has made its own part, a number that no other living process of this host has.
  /// Throws: CommunicationError where there is no range or no number
  static std::unique_ptr<SharedMemory> alone();
  static constexpr int kMostAlone = 128;
  /// Which part this process has, and what others must know to reach it.
  struct Place {
    uintptr_t begin = 0;
    int64_t processes = 0, own = 0;
    SharedFile::Address part;
  };
  Place place() const { return {begin_, processes_, own_, attached_[static_cast<size_t>(own_)]}; }
  /// Maps the part of the process whose place() was `other`, unless it is mapped already.
  /// Throws: CommunicationError that begins with `what`
  void attach(const Place& other, const std::string& what);
  bool has_attached(int process) const { return attached_[static_cast<size_t>(process)].pid != 0; }

  /// Makes `memory` the one that current() returns, until this process ends.
  static void keep(std::unique_ptr<SharedMemory> memory);
  ~SharedMemory();

  /// nullptr where this process shares no memory.
  static SharedMemory* current();
  /// The variable behind current(), for another library in this process that is linked with this file too.
  using Current = std::atomic<SharedMemory*>;
  static Current& variable();
  /// From now on current() is what that library's is.
  static void use(Current& variable);
  /// Whether this process is the child of a fork, which has only a copy of its parent's part.
  bool is_copy() const { return !file_; }

  int processes() const { return processes_; }
  bool holds(const void* memory) const {
    return reinterpret_cast<uintptr_t>(memory) - begin_ < bytes_of_part_ * static_cast<size_t>(processes_);
  }
  /// A block of this process's part, aligned to 64 bytes, for any thread; nullptr where there is no room or the machine has
  /// less memory than this. Freed blocks are reused.
  void* allocate(size_t bytes) { return heap_->allocate(bytes); }
  void free(void* block) { blocks_ && blocks_->holds(block) ? blocks_->free(block) : heap_->free(block); }
  /// The same for a block that other processes need not reach before share().
  void* allocate_tensor(size_t bytes) {
    return blocks_ && bytes >= PrivateBlocks::kLeast ? blocks_->allocate(bytes) : heap_->allocate(bytes);
  }
  /// Whether other processes reach memory of this process.
  bool reaches(const void* memory) const {
    return holds(memory) && (!blocks_ || !blocks_->holds(memory) || blocks_->is_shared(memory));
  }
  /// Lets other processes reach a block of allocate_tensor(bytes); nothing where that cannot be. As PrivateBlocks::share().
  void share(const void* block, size_t bytes) {
    if (file_ && blocks_ && blocks_->holds(block)) blocks_->share(block, bytes);
  }
  /// The same; throws std::bad_alloc.
  std::pmr::memory_resource& resource() { return resource_; }

  /// Bytes, all zero at first, by which a process says something to those that have attached its part.
  static constexpr size_t kNoticeBytes = 56 << 10;
  void* notice(int process) const { return static_cast<std::byte*>(part(process)) + kNoticeAt; }

  /// The core on which each process last ran, for ThreadCores; only where the processes began together.
  std::span<std::atomic<int>> cores() const;

 private:
  static constexpr size_t kNoticeAt = 8 << 10;
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
  /// Of which the first `bytes` are shared from the beginning.
  SharedFile::Address make_part(int own, size_t bytes);
  void make_private();
  void* part(int process) const {
    return reinterpret_cast<void*>(begin_ + bytes_of_part_ * static_cast<size_t>(process));
  }

  const uintptr_t begin_;
  const size_t bytes_of_part_;
  const int processes_;
  int own_ = 0;
  std::optional<SharedFile> file_;             // of the own part; none in the child of a fork
  int number_holder_ = -1;                     // a socket whose name keeps the number of the own part
  std::vector<SharedFile::Address> attached_;  // of each process
  std::optional<BlockHeap> heap_;
  std::optional<PrivateBlocks> blocks_;  // only where the processes met as they were
  Resource resource_{*this};
};

}  // namespace adjoin
