#include "adjoin/base/private_blocks.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace adjoin {

PrivateBlocks::PrivateBlocks(const SharedFile& file, void* begin, size_t bytes, size_t offset, size_t unused)
    : begin_(reinterpret_cast<uintptr_t>(begin)),
      bytes_(bytes),
      offset_(offset),
      file_(file.descriptor()),
      heap_(static_cast<char*>(begin) + unused, bytes - unused, kPage),
      shared_(bits()),
      starts_(bits()) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  if (!shared_ || !starts_ || ::mmap(begin, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0) == MAP_FAILED)
    throw_system_error("mmap");
  ::madvise(begin, bytes, MADV_HUGEPAGE);
}

void PrivateBlocks::set(const Bits& bits, size_t page, bool value) {
  const uint64_t bit = uint64_t{1} << (page % 64);
  value ? bits[page / 64].fetch_or(bit) : bits[page / 64].fetch_and(~bit);
}

void* PrivateBlocks::allocate(size_t bytes) {
  void* block = heap_.allocate(bytes);
  if (!block) return nullptr;
  const size_t first = page_of(block) - 1, number = 1 + (bytes + kPage - 1) / kPage;
  const std::lock_guard lock(mutex_);
  size_t shared = 0;
  for (size_t page = first; page < first + number; ++page) shared += is_set(shared_, page) ? 1 : 0;
  const bool is_mixed = shared > 0 && shared < number;
  const auto at = static_cast<off_t>(offset_ + first * kPage);
  if (is_mixed && (::pwrite(file_, static_cast<char*>(block) - kPage, BlockHeap::kLine, at) < 0 ||
                   !map_shared(first, number))) {  // the size of the block must not be lost
    heap_.free(block);
    return nullptr;
  }
  set(starts_, first + 1, true);
  return block;
}

void PrivateBlocks::free(void* block) {
  {
    const std::lock_guard lock(mutex_);
    set(starts_, page_of(block), false);
  }
  heap_.free(block);
}

bool PrivateBlocks::share(const void* memory, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const size_t page = page_of(memory), number = 1 + (bytes + kPage - 1) / kPage;
  const std::lock_guard lock(mutex_);
  if (is_set(shared_, page)) return true;
  if (address % kPage != 0 || !is_set(starts_, page)) return false;
  if (*reinterpret_cast<const size_t*>(address - kPage) != number * kPage) return false;
  const char* from = static_cast<const char*>(memory) - kPage;
  for (size_t done = 0; done < number * kPage;) {
    const auto at = static_cast<off_t>(offset_ + (page - 1) * kPage + done);
    const ssize_t written = ::pwrite(file_, from + done, number * kPage - done, at);
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return map_shared(page - 1, number);
}

bool PrivateBlocks::map_shared(size_t first, size_t number) {
  const auto at = static_cast<off_t>(offset_ + first * kPage);
  void* const place = reinterpret_cast<void*>(begin_ + first * kPage);
  if (::mmap(place, number * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, at) != place) return false;
  for (size_t page = first; page < first + number; ++page) set(shared_, page, true);
  return true;
}

void PrivateBlocks::lock() {
  mutex_.lock();
  heap_.mutex().lock();
}

void PrivateBlocks::unlock() {
  heap_.mutex().unlock();
  mutex_.unlock();
}

}  // namespace adjoin
