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

TEST(Printable, escapes_what_turns_the_text_around_it_or_is_not_seen) {
  EXPECT_EQ(printable("a\u202egnp.exe"), "a\\xe2\\x80\\xaegnp.exe");
  for (const char* text : {"\u061c", "\u180e", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202d",
                           "\u2060", "\u2066", "\u2069", "\ufeff", "\ufff9"})
    EXPECT_EQ(printable(text).substr(0, 2), "\\x") << printable(text);
}

TEST(Printable, leaves_what_writes_scripts_and_emoji) {
  for (const std::string text : {"\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f469\u200d\U0001f680",
                                 "\u2764\ufe0f", "\u2027\u202f", "co\u00adoperate", "\U0001f3f4\U000e0067\U000e007f"})
    EXPECT_EQ(printable(text), text);
}

}  // namespace
}  // namespace adjoin
