#include "adjoin/base/block_heap.hpp"

#include <unistd.h>

namespace adjoin {

namespace {

/// The word at the start of the line in front of a block, or of a small free block.
template <class T>
T& word_at(uintptr_t address) {
  return *reinterpret_cast<T*>(address);
}

}  // namespace

size_t bytes_of_machine() {
  static const size_t bytes =
      static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

BlockHeap::BlockHeap(void* begin, size_t bytes, size_t unit) : unit_(unit) {
  give_back(reinterpret_cast<Address>(begin), bytes / unit * unit);
}

void* BlockHeap::allocate(size_t bytes) {
  if (bytes > bytes_of_machine()) return nullptr;
  const size_t units = (bytes + unit_ - 1) / unit_, whole = (units + 1) * unit_;
  const std::lock_guard lock(mutex_);
  Address begin = 0;
  if (whole > kSmall) {
    begin = take(whole);
  } else {
    Address& first = small_[whole / kLine];
    if (first == 0) {
      const Address chunk = take(kChunk);
      if (chunk == 0) return nullptr;
      for (Address block = chunk; block + whole <= chunk + kChunk; block += whole)
        word_at<Address>(block) = std::exchange(first, block);
    }
    begin = first;
    first = word_at<Address>(begin);
  }
  if (begin == 0) return nullptr;
  word_at<size_t>(begin) = whole;
  return reinterpret_cast<void*>(begin + unit_);
}

void BlockHeap::free(void* block) {
  if (block == nullptr) return;
  const Address begin = reinterpret_cast<Address>(block) - unit_;
  const std::lock_guard lock(mutex_);
  const auto whole = word_at<size_t>(begin);
  if (whole > kSmall) return give_back(begin, whole);
  word_at<Address>(begin) = std::exchange(small_[whole / kLine], begin);
}

/// 0 where no hole is large enough.
BlockHeap::Address BlockHeap::take(size_t bytes) {
  const auto found = by_size_.lower_bound({bytes, 0});
  if (found == by_size_.end()) return 0;
  const auto [room, begin] = *found;
  remove_hole(holes_.find(begin));
  if (room > bytes) add_hole(begin + bytes, room - bytes);
  return begin;
}

void BlockHeap::give_back(Address begin, size_t bytes) {
  if (const auto after = holes_.lower_bound(begin); after != holes_.end() && after->first == begin + bytes) {
    bytes += after->second;
    remove_hole(after);
  }
  if (const auto after = holes_.lower_bound(begin); after != holes_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      remove_hole(before);
    }
  }
  add_hole(begin, bytes);
}

void BlockHeap::add_hole(Address begin, size_t bytes) {
  if (spare_holes_.empty()) {
    holes_.emplace(begin, bytes);
    by_size_.emplace(bytes, begin);
    return;
  }
  auto hole = std::move(spare_holes_.back());
  auto size = std::move(spare_sizes_.back());
  spare_holes_.pop_back();
  spare_sizes_.pop_back();
  hole.key() = begin;
  hole.mapped() = bytes;
  size.value() = {bytes, begin};
  holes_.insert(std::move(hole));
  by_size_.insert(std::move(size));
}

void BlockHeap::remove_hole(std::map<Address, size_t>::iterator hole) {
  spare_sizes_.push_back(by_size_.extract({hole->second, hole->first}));
  spare_holes_.push_back(holes_.extract(hole));
}

}  // namespace adjoin
