#include "adjoin/base/text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

#include "adjoin/base/error.hpp"

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

TEST(Text, counts_places_from_1) {
  EXPECT_EQ(ordinal(0), "1st");
  EXPECT_EQ(ordinal(1), "2nd");
  EXPECT_EQ(ordinal(2), "3rd");
  EXPECT_EQ(ordinal(3), "4th");
  EXPECT_EQ(ordinal(9), "10th");
  EXPECT_EQ(ordinal(10), "11th");
  EXPECT_EQ(ordinal(12), "13th");
  EXPECT_EQ(ordinal(21), "22nd");
  EXPECT_EQ(ordinal(110), "111th");
}

TEST(Text, writes_numbers_in_a_row_as_a_range) {
  EXPECT_EQ(ranges_text(std::vector<int>{}), "");
  EXPECT_EQ(ranges_text(std::vector<int>{3}), "3");
  EXPECT_EQ(ranges_text(std::vector<int>{0, 1, 3, 4, 5, 9}), "0, 1, 3-5, 9");
  EXPECT_EQ(short_ranges_text(std::vector<int>{0, 2, 4, 6}), "0, 2, 4, 6");
  EXPECT_EQ(short_ranges_text(std::vector<int>{0, 2, 4, 6, 8, 10}), "0 2 .. 10");
  EXPECT_EQ(short_ranges_text(std::vector<int>{100000, 100001, 100002, 100003}), "100000-100003");
  EXPECT_EQ(ranks_text(std::vector<int>{3}), "rank 3");
  EXPECT_EQ(ranks_text(std::vector<int>{0, 2, 3, 4}), "ranks 0, 2-4");
}

TEST(Text, writes_seconds_as_people_do) {
  EXPECT_EQ(text_of_seconds(0), "0 s");
  EXPECT_EQ(text_of_seconds(8.5e-7), "850 ns");
  EXPECT_EQ(text_of_seconds(1.25e-5), "12.5 us");
  EXPECT_EQ(text_of_seconds(3.07e-3), "3.07 ms");
  EXPECT_EQ(text_of_seconds(12), "12 s");
}

TEST(Text, writes_numbers_with_digits_after_their_point) {
  EXPECT_EQ(fixed(2.0 / 3, 3), "0.667");
  EXPECT_EQ(fixed(-1e15, 0), "-1000000000000000");
}

TEST(Text, reads_one_decimal_number_and_nothing_else) {
  EXPECT_EQ(number_from<int64_t>("-010", "x"), -10);
  EXPECT_EQ(number_from<double>("1.5e3", "x"), 1500);
  for (const char* wrong : {"", "3 ", "0x10", "1.5", "99999999999999999999"})
    EXPECT_THROW(number_from<int64_t>(wrong, "x"), InvalidArgument) << wrong;
}

TEST(Text, parts_lie_between_separators) {
  EXPECT_EQ(parts_of("a,,b"), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(parts_of("", '|'), std::vector<std::string_view>{""});
}

TEST(Text, items_of_a_list_have_no_blanks_around_them) {
  EXPECT_EQ(items_of(" a,\tb c , ,d"), (std::vector<std::string_view>{"a", "b c", "", "d"}));
  EXPECT_EQ(items_of(" "), std::vector<std::string_view>{""});
}

TEST(Text, of_a_table_stands_in_columns_which_go_on_below_where_the_page_ends) {
  const std::vector<std::vector<std::string>> rows{{"rank", "µs", "at"}, {"0", "10", "[0:4]"}, {"12", "5"}};
  EXPECT_EQ(table_text(rows, "rl"), "rank  µs  at\n   0  10  [0:4]\n  12  5\n");
  EXPECT_EQ(table_text(rows, "lr", 10), "rank  µs\n         at\n0     10\n      [0:4]\n12     5\n");
  EXPECT_EQ(table_text({}, "r"), "");
}

}  // namespace
}  // namespace adjoin
