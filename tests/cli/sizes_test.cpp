#include "adjoin/cli/sizes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "adjoin/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::cli {
namespace {

using test::message_of;
using ::testing::ElementsAre;

TEST(SizeOptions, are_bytes_or_powers_of_1024) {
  EXPECT_EQ(bytes_of("0", "--bytes"), 0);
  EXPECT_EQ(bytes_of("512", "--bytes"), 512);
  EXPECT_EQ(bytes_of("4K", "--bytes"), 4096);
  EXPECT_EQ(bytes_of("2G", "--bytes"), int64_t{2} << 30);
  EXPECT_THAT(all_bytes_of("64,1K,0", "--bytes"), ElementsAre(64, 1024, 0));
  for (const char* wrong : {"", "-4", "4KB", "4 K", "K", "1.5M", "9999999999G", "2000000G", "+1", "0x10"})
    EXPECT_THROW(bytes_of(wrong, "--bytes"), InvalidArgument) << wrong;
  EXPECT_THROW(all_bytes_of("64,", "--bytes"), InvalidArgument);
  EXPECT_EQ(message_of<InvalidArgument>([] { bytes_of("4X", "--chunk"); }),
            "--chunk is 4X, expected bytes as in 512, 4K, 1M or 2G, up to 1048576G");
}

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

}  // namespace
}  // namespace adjoin::cli
