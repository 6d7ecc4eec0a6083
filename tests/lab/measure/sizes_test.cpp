#include "adjoin/lab/measure/sizes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "adjoin/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::measure {
namespace {

using test::message_of;
using ::testing::ElementsAre;

TEST(Sizes, are_read_in_powers_of_1024) {
  EXPECT_EQ(bytes_of("0", "--bytes"), 0);
  EXPECT_THAT(all_bytes_of("64,4K,3M,2G,0", "--bytes"), ElementsAre(64, 4096, 3 << 20, int64_t{2} << 30, 0));
  EXPECT_THAT(all_bytes_of("1048576G", "--bytes"), ElementsAre(int64_t{1} << 50));
}

TEST(Sizes, refuse_what_is_no_size) {
  for (const std::string text : {"", "K", "4k", "4KB", "-1", "4K,", ",4K", "1.5M", "99999999999G", "1048577G",
                                 "2000000G", "4 K", "x", "0K", "00", "+1", "0x10"})
    EXPECT_THROW(all_bytes_of(text, "--sizes"), InvalidArgument) << text;
  EXPECT_EQ(message_of<InvalidArgument>([] { bytes_of("4X", "--chunk"); }),
            "--chunk is 4X, expected a number of bytes such as 512, 4K, 1M or 2G, at most 1048576G");
}

TEST(Sizes, are_shown_in_the_largest_unit_that_leaves_them_whole) {
  EXPECT_EQ(text_of_bytes(64), "64 B");
  EXPECT_EQ(text_of_bytes(4096), "4 KiB");
  EXPECT_EQ(text_of_bytes(1536), "1536 B");
  EXPECT_EQ(text_of_bytes(256 << 20), "256 MiB");
  EXPECT_EQ(text_of_bytes(int64_t{3} << 40), "3072 GiB");
}

}  // namespace
}  // namespace adjoin::measure
