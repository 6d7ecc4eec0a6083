#include "adjoin/base/box.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/base/element_type.hpp"
#include "tests/support/boxes.hpp"

namespace adjoin {
namespace {

using testing::other_sizes;
using testing::random_box;
using testing::random_sizes;
using testing::RandomBox;

std::string text_of(const RandomBox& box) {
  std::string text = "sizes";
  for (const int64_t size : box.sizes) text.append(" ").append(std::to_string(size));
  text += " strides";
  for (const int64_t stride : box.strides) text.append(" ").append(std::to_string(stride));
  return text;
}

/// Copies, and compares every element of the target's memory with a copy of one element after the other.
template <class T>
void expect_right_copy(const RandomBox& to, const RandomBox& from) {
  std::vector<T> source(static_cast<size_t>(from.extent)), target(static_cast<size_t>(to.extent), T(7)), expected;
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<T>(3 * i + 1);
  expected = target;
  for (int64_t i = 0; i < to.count(); ++i)
    expected[static_cast<size_t>(to.place(i))] = source[static_cast<size_t>(from.place(i))];
  copy_box(target.data(), to.sizes, to.strides, source.data(), from.sizes, from.strides, sizeof(T));
  ASSERT_EQ(target, expected) << "to " << text_of(to) << ", from " << text_of(from);
}

void expect_right_copies(const RandomBox& to, const RandomBox& from) {
  expect_right_copy<uint8_t>(to, from);
  expect_right_copy<uint16_t>(to, from);
  expect_right_copy<uint32_t>(to, from);
  expect_right_copy<uint64_t>(to, from);
}

TEST(Box, is_copied_element_by_element_whatever_the_strides) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto sizes = random_sizes(random);
    expect_right_copies(random_box(sizes, /*is_read=*/false, random), random_box(sizes, /*is_read=*/true, random));
  }
}

TEST(Box, may_have_other_sizes_on_the_other_side) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const auto sizes = random_sizes(random);
    const RandomBox from = random_box(sizes, /*is_read=*/true, random);
    expect_right_copies(random_box(other_sizes(from.count(), random), /*is_read=*/false, random), from);
  }
}

TEST(Box, without_sizes_is_contiguous) {
  const std::vector<int32_t> rows{1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> sizes{3, 2}, strides{1, 3};
  std::vector<int32_t> packed(6), transposed(6);
  copy_box(packed.data(), {}, {}, rows.data(), sizes, strides, 4);
  EXPECT_EQ(packed, (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
  copy_box(transposed.data(), sizes, strides, packed.data(), {}, {}, 4);
  EXPECT_EQ(transposed, rows);
}

TEST(Box, that_is_large_goes_past_the_caches_to_the_same_place) {
  const int64_t n = 1100;  // 1100 x 1100 of 4 bytes are above the limit of streaming; lines are not aligned
  const std::vector<int64_t> sizes{n, n};
  expect_right_copy<uint32_t>({sizes, {n + 3, 1}, n * (n + 3)}, {sizes, {n, 1}, n * n});
  expect_right_copy<uint32_t>({sizes, {n, 1}, n * n}, {sizes, {1, n}, n * n});
}

TEST(Box, is_merged_to_as_few_dims_as_can_be) {
  const std::vector<int64_t> sizes{2, 1, 3, 4}, strides{12, 99, 4, 1};
  const Box whole = merged(sizes, strides);
  EXPECT_EQ(whole.sizes, std::vector<int64_t>{24});
  EXPECT_EQ(whole.strides, std::vector<int64_t>{1});
}

}  // namespace
}  // namespace adjoin
