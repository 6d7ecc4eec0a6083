#include "adjoin/base/text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

namespace adjoin {
namespace {

TEST(Text, joins_texts_and_numbers) {
  EXPECT_EQ(joined(std::vector<std::string>{}), "");
  EXPECT_EQ(joined(std::vector<std::string>{"", "b"}), ", b");
  EXPECT_EQ(joined(std::array<std::string_view, 3>{"a", "b", "c"}, " and "), "a and b and c");
  EXPECT_EQ(joined(std::vector<int64_t>{5, -7}, " x "), "5 x -7");
}

TEST(Text, counts_things) {
  EXPECT_EQ(counted(0, "head"), "0 heads");
  EXPECT_EQ(counted(1, "head"), "1 head");
  EXPECT_EQ(counted(1, "box", "boxes"), "1 box");
  EXPECT_EQ(counted(2, "box", "boxes"), "2 boxes");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(-999), "-999");
  EXPECT_EQ(grouped(-123'456), "-123,456");
  EXPECT_EQ(grouped(1'234'567), "1,234,567");
}

TEST(Text, writes_numbers_in_a_row_as_a_range) {
  EXPECT_EQ(ranges_text(std::vector<int>{}), "");
  EXPECT_EQ(ranges_text(std::vector<int>{3}), "3");
  EXPECT_EQ(ranges_text(std::vector<int>{0, 1, 3, 4, 5, 9}), "0, 1, 3-5, 9");
  EXPECT_EQ(ranks_text(std::vector<int>{3}), "rank 3");
  EXPECT_EQ(ranks_text(std::vector<int>{0, 2, 3, 4}), "ranks 0, 2-4");
}

}  // namespace
}  // namespace adjoin
