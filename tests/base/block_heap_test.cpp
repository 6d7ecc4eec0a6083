#include "adjoin/base/block_heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <vector>

namespace adjoin {
namespace {

constexpr size_t kRoom = 4 << 20;

struct Free {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
};
using Room = std::unique_ptr<std::byte[], Free>;

Room room() {
  return Room(new (std::align_val_t{64}) std::byte[kRoom]);
}

TEST(BlockHeap, gives_blocks_that_are_aligned_and_never_overlap) {
  const Room memory = room();
  BlockHeap heap(memory.get(), kRoom);
  std::mt19937 draw(1);
  struct Block {
    std::byte* begin;
    size_t bytes;
    std::byte mark;
  };
  std::vector<Block> blocks;
  const auto is_whole = [](const Block& block) {
    return std::all_of(block.begin, block.begin + block.bytes, [&](std::byte b) { return b == block.mark; });
  };
  for (int i = 0; i < 20'000; ++i) {
    if (blocks.size() > 40 || (!blocks.empty() && draw() % 3 == 0)) {
      const size_t which = draw() % blocks.size();
      ASSERT_TRUE(is_whole(blocks[which])) << "after " << i << " calls";
      heap.free(blocks[which].begin);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    const size_t bytes = draw() % 4 == 0 ? draw() % 200'000 : draw() % 5000;
    auto* begin = static_cast<std::byte*>(heap.allocate(bytes));
    if (!begin) continue;  // full
    ASSERT_EQ(reinterpret_cast<uintptr_t>(begin) % BlockHeap::kLine, 0u);
    ASSERT_GE(begin, memory.get());
    ASSERT_LE(begin + bytes, memory.get() + kRoom);
    blocks.push_back({begin, bytes, static_cast<std::byte>(draw())});
    std::memset(begin, static_cast<int>(blocks.back().mark), bytes);
  }
}

TEST(BlockHeap, makes_one_hole_of_those_that_touch) {
  const Room memory = room();
  BlockHeap heap(memory.get(), kRoom);
  constexpr size_t kLarge = kRoom / 8;
  std::vector<void*> blocks;
  while (void* block = heap.allocate(kLarge)) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), 7u);  // as a line goes before each
  for (const size_t which : {3, 1, 0, 6, 5, 2, 4}) heap.free(blocks[which]);
  void* all = heap.allocate(kRoom - BlockHeap::kLine);
  EXPECT_NE(all, nullptr);
  EXPECT_EQ(heap.allocate(1), nullptr);
  heap.free(all);
}

TEST(BlockHeap, refuses_more_than_there_is) {
  const Room memory = room();
  BlockHeap heap(memory.get(), kRoom);
  EXPECT_EQ(heap.allocate(kRoom), nullptr);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap.allocate(SIZE_MAX - 10), nullptr);
}

TEST(BlockHeap, gives_what_was_freed_again) {
  const Room memory = room();
  BlockHeap heap(memory.get(), kRoom);
  for (const size_t bytes : {size_t{1}, size_t{4000}, size_t{100'000}}) {
    void* block = heap.allocate(bytes);
    heap.free(block);
    EXPECT_EQ(heap.allocate(bytes), block);
  }
}

}  // namespace
}  // namespace adjoin
