#include "adjoin/base/block_heap.hpp"

namespace adjoin {

namespace {

/// What stands in the line in front of a block, or at the beginning of a small one that is free.
template <class T>
T& word_at(uintptr_t address) {
  return *reinterpret_cast<T*>(address);
}

}  // namespace

BlockHeap::BlockHeap(void* begin, size_t bytes) {
  give_back(reinterpret_cast<Address>(begin), bytes / kLine * kLine);
}

void* BlockHeap::allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const size_t lines = (bytes + kLine - 1) / kLine, whole = (lines + 1) * kLine;
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
  return reinterpret_cast<void*>(begin + kLine);
}

void BlockHeap::free(void* block) {
  if (block == nullptr) return;
  const Address begin = reinterpret_cast<Address>(block) - kLine;
  const std::lock_guard lock(mutex_);
  const auto whole = word_at<size_t>(begin);
  if (whole > kSmall) return give_back(begin, whole);
  word_at<Address>(begin) = std::exchange(small_[whole / kLine], begin);
}

/// 0 where there is no hole.
BlockHeap::Address BlockHeap::take(size_t bytes) {
  const auto found = by_size_.lower_bound({bytes, 0});
  if (found == by_size_.end()) return 0;
  const auto [room, begin] = *found;
  auto size_node = by_size_.extract(found);
  auto hole_node = holes_.extract(begin);
  if (room > bytes) {  // what remains takes over the nodes
    size_node.value() = {room - bytes, begin + bytes};
    by_size_.insert(std::move(size_node));
    hole_node.key() = begin + bytes;
    hole_node.mapped() = room - bytes;
    holes_.insert(std::move(hole_node));
  }
  return begin;
}

void BlockHeap::give_back(Address begin, size_t bytes) {
  auto after = holes_.lower_bound(begin);
  if (after != holes_.end() && after->first == begin + bytes) {
    bytes += after->second;
    by_size_.erase({after->second, after->first});
    after = holes_.erase(after);
  }
  if (after != holes_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      by_size_.erase({before->second, before->first});
      before->second += bytes;
      by_size_.insert({before->second, before->first});
      return;
    }
  }
  holes_.insert(after, {begin, bytes});
  by_size_.insert({bytes, begin});
}

}  // namespace adjoin
