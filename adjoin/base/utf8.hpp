#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace adjoin {

/// One code point of a UTF-8 text; `length` is its number of bytes, 0 where the bytes are not UTF-8.
struct CodePoint {
  char32_t value = 0;
  int length = 0;
};

/// Reads the code point that begins at `text[at]`. Overlong forms, surrogates and values above U+10FFFF are not UTF-8.
CodePoint decode_utf8(std::string_view text, size_t at);

/// Appends `point` in UTF-8.
void append_utf8(std::string& text, char32_t point);

/// Removes the bytes that are not UTF-8 and returns how many they were.
int64_t drop_invalid_utf8(std::string& text);

/// Whether a terminal does something else with a code point than show it: moves the cursor, answers, turns the direction of the
/// text around it, or shows nothing at all. Such code points are below U+10000.
bool disturbs_terminal(char32_t point);

/// The text in a form that is safe for a terminal: what disturbs it, except line ends, and bytes that are not UTF-8, are written
/// as "\t" or "\x1b".
std::string printable(std::string_view text);

}  // namespace adjoin
