#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "adjoin/base/utf8.hpp"

namespace adjoin::data {

/// The classes that the patterns of tokenizers distinguish: \p{L}, \p{N} and \s of Unicode 16.0, as in the tokenizers package
/// 0.23. They do not depend on the version of the system's libraries, since a vocabulary only works if all its users agree.
enum class CharacterClass : uint8_t { other, letter, number, space };

constexpr std::array<CharacterClass, 128> make_ascii_classes() {
  std::array<CharacterClass, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    classes[c] = letter                 ? CharacterClass::letter
                 : c >= '0' && c <= '9' ? CharacterClass::number
                 : space                ? CharacterClass::space
                                        : CharacterClass::other;
  }
  return classes;
}
inline constexpr auto kAsciiClasses = make_ascii_classes();

CharacterClass class_beyond_ascii(char32_t point);

inline CharacterClass class_of(char32_t point) {
  return point < kAsciiClasses.size() ? kAsciiClasses[point] : class_beyond_ascii(point);
}

/// Whether a code point is a number (N*) in Unicode 17.0, which the package's Digits step uses.
bool is_numeric(char32_t point);

/// Whether a code point belongs to words: a letter, a mark, a digit, a connector such as _, or a joiner. (\w of regular
/// expressions, Unicode Technical Standard 18, annex C.)
bool is_word_character(char32_t point);

/// A text without the white space at its end.
std::string_view without_spaces_at_end(std::string_view text);

/// The class and the bytes of the character at a place of a text. A byte that is not UTF-8 is a character of class other.
struct Character {
  CharacterClass kind = CharacterClass::other;
  uint8_t length = 1;
};

inline Character character_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < kAsciiClasses.size()) return {kAsciiClasses[byte], 1};
  const CodePoint point = decode_utf8(text, at);
  if (point.length == 0) return {};
  return {class_beyond_ascii(point.value), static_cast<uint8_t>(point.length)};
}

}  // namespace adjoin::data
