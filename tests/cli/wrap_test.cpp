#include "adjoin/cli/wrap.hpp"

#include <gtest/gtest.h>

namespace adjoin::cli {
namespace {

TEST(Wrapped, leaves_short_lines_as_they_are) {
  EXPECT_EQ(wrapped("", 10, 4), "");
  EXPECT_EQ(wrapped("one\n\n  two\n", 10, 4), "one\n\n  two\n");
  EXPECT_EQ(wrapped("ten of ten", 10, 4), "ten of ten");
}

TEST(Wrapped, breaks_long_lines_at_spaces) {
  EXPECT_EQ(wrapped("a line of several words", 10, 4), "a line of\nseveral\nwords");
  EXPECT_EQ(wrapped("  --name  what it does\nnext", 14, 10), "  --name  what\n          it\n          does\nnext");
}

TEST(Wrapped, breaks_words_that_are_longer_than_a_line) {
  EXPECT_EQ(wrapped("tinysmalllarge", 6, 0), "tinysm\nalllar\nge");
  EXPECT_EQ(wrapped("  --a tinysmalllarge", 12, 4), "  --a\n    tinysmal\n    llarge");
}

TEST(Wrapped, breaks_a_long_word_between_its_parts) {
  EXPECT_EQ(wrapped("tiny|small|large", 6, 0), "tiny|\nsmall|\nlarge");
  EXPECT_EQ(wrapped("  --a tiny|small|large", 12, 4), "  --a\n    tiny|\n    small|\n    large");
  EXPECT_EQ(wrapped("  --text-column,--no-text-column", 20, 4), "  --text-column,\n    --no-text-column");
}

TEST(Wrapped, counts_characters_and_not_bytes) {
  EXPECT_EQ(wrapped("\u2026\u2026\u2026 \u2026", 5, 0), "\u2026\u2026\u2026 \u2026");
  EXPECT_EQ(wrapped("\u2026\u2026\u2026\u2026\u2026\u2026", 5, 0), "\u2026\u2026\u2026\u2026\u2026\n\u2026");
}

}  // namespace
}  // namespace adjoin::cli
