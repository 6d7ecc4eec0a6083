#include "adjoin/base/thread_memory.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <bit>
#include <cstdint>
#include <mutex>

#include "adjoin/base/not_copied.hpp"

namespace adjoin {

namespace {

std::mutex parts_mutex;
uint64_t parts_in_use = 0;  // one bit for each
int shared_parts = 0;       // parts given out again because all were in use

/// The part of a thread, for as long as the thread lives.
class Part : NotCopied {
 public:
  Part() {
    const std::lock_guard lock(parts_mutex);
    number_ = std::countr_one(parts_in_use);
    is_ours_ = number_ < ThreadMemory::kParts;
    if (is_ours_)
      parts_in_use |= uint64_t{1} << number_;
    else
      number_ = shared_parts++ % ThreadMemory::kParts;
  }
  ~Part() {
    const std::lock_guard lock(parts_mutex);
    if (is_ours_) parts_in_use &= ~(uint64_t{1} << number_);
  }

  size_t number() const { return static_cast<size_t>(number_); }

 private:
  int number_;
  bool is_ours_;
};

}  // namespace

ThreadMemory::ThreadMemory(void* begin) : begin_(reinterpret_cast<uintptr_t>(begin)) {
  for (size_t part = 0; part < kParts; ++part) {
    const size_t unused = BlockHeap::kApart * part;
    heaps_.emplace_back(static_cast<char*>(begin) + kBytesOfPart * part + unused, kBytesOfPart - unused);
  }
}

ThreadMemory* ThreadMemory::of_process() {
  static ThreadMemory* const memory = []() -> ThreadMemory* {
#ifdef __SANITIZE_ADDRESS__
    return nullptr;
#endif
    void* begin = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) return nullptr;
    ::madvise(begin, kBytes, MADV_HUGEPAGE);  // a step takes some hundredths less
    auto* made = new ThreadMemory(begin);     // never destroyed, as tensors may live as long as the process
    ::pthread_atfork(&lock_all, &unlock_all, &unlock_all);
    return made;
  }();
  return memory;
}

void* ThreadMemory::allocate(size_t bytes) {
  thread_local const Part part;
  return heaps_[part.number()].allocate(bytes);
}

void ThreadMemory::lock_all() {
  parts_mutex.lock();
  for (BlockHeap& heap : of_process()->heaps_) heap.mutex().lock();
}
void ThreadMemory::unlock_all() {
  for (BlockHeap& heap : of_process()->heaps_) heap.mutex().unlock();
  parts_mutex.unlock();
}

}  // namespace adjoin
