#include "adjoin/base/private_blocks.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace adjoin {
namespace {

constexpr size_t kBytes = 16 << 20, kPage = 4096;

/// A range of blocks, and the file as another process would map it.
class PrivateBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    begin_ = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    blocks_.emplace(file_, begin_, kBytes, /*offset=*/0, /*unused=*/0);
    theirs_ = static_cast<char*>(file_.map(kBytes));
  }
  void TearDown() override {
    blocks_.reset();
    ::munmap(begin_, kBytes);
    ::munmap(theirs_, kBytes);
  }
  char* made(size_t bytes, char value) {
    void* block = blocks_->allocate(bytes);
    return static_cast<char*>(std::memset(block, value, bytes));
  }
  char* theirs(const char* mine) const { return theirs_ + (mine - static_cast<char*>(begin_)); }

  SharedFile file_ = SharedFile::make(kBytes);
  void* begin_ = nullptr;
  char* theirs_ = nullptr;
  std::optional<PrivateBlocks> blocks_;
};

TEST_F(PrivateBlocksTest, a_block_is_shared_where_it_is_and_keeps_its_bytes) {
  constexpr size_t kSize = 100'000;
  char *before = made(kSize, 1), *block = made(kSize, 2), *after = made(kSize, 3);
  EXPECT_EQ(theirs(block)[0], 0);
  EXPECT_FALSE(blocks_->is_shared(block));
  ASSERT_TRUE(blocks_->share(block, kSize));
  EXPECT_TRUE(blocks_->is_shared(block + kSize - 1));
  EXPECT_FALSE(blocks_->is_shared(before + kSize - 1));
  EXPECT_FALSE(blocks_->is_shared(after));
  EXPECT_EQ(std::vector<char>(theirs(block), theirs(block) + kSize), std::vector<char>(kSize, 2));
  EXPECT_EQ(std::vector<char>(block, block + kSize), std::vector<char>(kSize, 2));
  theirs(block)[kSize / 2] = 7;
  EXPECT_EQ(block[kSize / 2], 7);
  block[0] = 8;
  EXPECT_EQ(theirs(block)[0], 8);
  EXPECT_TRUE(blocks_->share(block, kSize));  // again
  EXPECT_EQ(block[kSize / 2], 7);
  for (char* each : {before, block, after}) blocks_->free(each);
}

TEST_F(PrivateBlocksTest, parts_of_blocks_are_not_shared) {
  char* block = made(100'000, 1);
  EXPECT_FALSE(blocks_->share(block + kPage, 100'000 - kPage));
  EXPECT_FALSE(blocks_->share(block, 100'000 - 2 * kPage));
  EXPECT_FALSE(blocks_->share(block + 64, 100'000));
  blocks_->free(block);
  EXPECT_FALSE(blocks_->share(block, 100'000));  // it is no block now
  EXPECT_FALSE(blocks_->is_shared(block));
}

TEST_F(PrivateBlocksTest, a_block_over_shared_and_private_pages_is_shared) {
  char *first = made(100'000, 1), *second = made(100'000, 2), *last = made(1000, 3);
  ASSERT_TRUE(blocks_->share(second, 100'000));
  blocks_->free(first);
  blocks_->free(second);
  char* both = made(200'000, 4);
  ASSERT_EQ(both, first);
  EXPECT_TRUE(blocks_->is_shared(both));
  EXPECT_TRUE(blocks_->is_shared(both + 199'999));
  EXPECT_EQ(theirs(both)[0], 4);
  EXPECT_EQ(theirs(both)[199'999], 4);
  blocks_->free(both);  // its size is known still
  char* again = made(200'000, 5);
  EXPECT_EQ(again, first);
  EXPECT_EQ(last[999], 3);
}

TEST_F(PrivateBlocksTest, names_what_a_child_must_copy) {
  char *first = made(70'000, 1), *second = made(70'000, 2), *third = made(70'000, 3);
  blocks_->share(first, 70'000);
  blocks_->share(third, 70'000);
  std::vector<std::pair<size_t, size_t>> ranges;
  blocks_->end_sharing([&](size_t begin, size_t end) { ranges.emplace_back(begin, end); });
  const size_t each = 70'000 / kPage + 2;  // with the page in front and the last one
  const std::vector<std::pair<size_t, size_t>> expected{{0, each * kPage}, {2 * each * kPage, 3 * each * kPage}};
  EXPECT_EQ(ranges, expected);
  EXPECT_FALSE(blocks_->is_shared(first));
  EXPECT_EQ(second[0], 2);
}

}  // namespace
}  // namespace adjoin
