#include "adjoin/base/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace adjoin {
namespace {

TEST(DecodeUtf8, reads_code_points_of_every_length) {
  EXPECT_EQ(decode_utf8("a", 0).value, U'a');
  EXPECT_EQ(decode_utf8("\u00e9", 0).value, U'\u00e9');
  EXPECT_EQ(decode_utf8("\u20ac", 0).value, U'\u20ac');
  EXPECT_EQ(decode_utf8("\U0001f600", 0).value, U'\U0001f600');
  EXPECT_EQ(decode_utf8("\U0001f600", 0).length, 4);
}

// The ill-formed sequences of the Unicode Standard, table 3-7.
TEST(DecodeUtf8, refuses_what_the_standard_calls_ill_formed) {
  for (const char* bytes : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                            "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xc3", "\xff"})
    EXPECT_EQ(decode_utf8(bytes, 0).length, 0) << std::hex << int(static_cast<unsigned char>(bytes[0]));
}

TEST(AppendUtf8, writes_what_decode_reads) {
  for (const char32_t point : {U'a', U'\u07ff', U'\u0800', U'\uffff', U'\U00010000', U'\U0010ffff'}) {
    std::string text;
    append_utf8(text, point);
    EXPECT_EQ(decode_utf8(text, 0).value, point);
    EXPECT_EQ(decode_utf8(text, 0).length, static_cast<int>(text.size()));
  }
}

TEST(DropInvalidUtf8, drops_and_counts_bytes_and_keeps_the_rest) {
  std::string text = "caf\xc3\xa9 \xe9t\xe9 \xed\xa0\x80!";
  EXPECT_EQ(drop_invalid_utf8(text), 5);
  EXPECT_EQ(text, "caf\u00e9 t !");
}

TEST(Printable, leaves_what_can_be_read) {
  EXPECT_EQ(printable("a \\ film,\ncaf\u00e9 \u6f22 \U0001f600"), "a \\ film,\ncaf\u00e9 \u6f22 \U0001f600");
}

TEST(Printable, escapes_whatever_moves_the_cursor) {
  EXPECT_EQ(printable("\x1b[2Jgone\r\t\x07\x7f"), "\\x1b[2Jgone\\x0d\\t\\x07\\x7f");
  EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\u009b31m"), "\\xc2\\x9b31m");  // the control that is ESC [ in one character
  EXPECT_EQ(printable("\x9b\xffz\xc3"), "\\x9b\\xffz\\xc3");
}

}  // namespace
}  // namespace adjoin
