#include "adjoin/cli/numbers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::cli {
namespace {

using ::testing::ElementsAre;

TEST(SizeOptions, name_one_number_a_list_or_a_doubling_range) {
  EXPECT_EQ(number_of("8", "--ranks", 1, 10), 8);
  EXPECT_THAT(numbers_of("8", "--ranks", 1, 10), ElementsAre(8));
  EXPECT_THAT(numbers_of("2,3,8", "--ranks", 1, 10), ElementsAre(2, 3, 8));
  EXPECT_THAT(numbers_of("4..32", "--ranks", 1, 100), ElementsAre(4, 8, 16, 32));
  EXPECT_THAT(numbers_of("3..20", "--ranks", 1, 100), ElementsAre(3, 6, 12));
  for (const char* wrong : {"", "0", "11", "two", "2,", "2..", "..2", "4..2", "1..11", "2...4", "-1"})
    EXPECT_THROW(numbers_of(wrong, "--ranks", 1, 10), InvalidArgument) << wrong;
  EXPECT_THROW(number_of("2,3", "--ranks", 1, 10), InvalidArgument);
}

TEST(SizeOptions, are_refused_together_where_their_product_is_too_large) {
  const auto refusal = [](int64_t rows, int64_t columns) {
    return test::message_of<InvalidArgument>([&] { check_product({{"--rows", rows}, {"--columns", columns}}, 12); });
  };
  EXPECT_EQ(refusal(3, 4), "");
  EXPECT_EQ(refusal(4, 4), "--rows 4 times --columns 4 is more than 12");
  EXPECT_EQ(refusal(4, 0), "--columns is 0, expected 1 to 12");
  EXPECT_EQ(refusal(13, 1), "--rows is 13, expected 1 to 12");
}

}  // namespace
}  // namespace adjoin::cli
