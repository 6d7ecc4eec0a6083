#include "adjoin/lab/measure/sizes.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoin/base/error.hpp"

namespace adjoin::measure {
namespace {

TEST(Sizes, are_read_in_powers_of_1024) {
  EXPECT_EQ(sizes_from("64,4K,3M,2G"), (std::vector<int64_t>{64, 4096, 3 << 20, int64_t{2} << 30}));
  EXPECT_EQ(sizes_from("7"), (std::vector<int64_t>{7}));
}

TEST(Sizes, refuse_what_is_no_size) {
  for (const std::string text : {"", "K", "4k", "4KB", "-1", "0", "4K,", ",4K", "1.5M", "99999999999G", "4 K", "x"})
    EXPECT_THROW(sizes_from(text), InvalidArgument) << text;
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
