#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "adjoin/base/utf8.hpp"

namespace adjoin::data {

/// The classes that the patterns of tokenizers distinguish: \p{L}, \p{N} and \s of Unicode 16.0, as in the tokenizers package
/// 0.23.
enum class CharacterClass : uint8_t { other, letter, number, space };

/// What tokenizers distinguish in a code point: its class in the lowest two bits, and more in others. Nothing of it depends on
/// the version of the system's libraries, since a vocabulary only works if all its users agree.
using Traits = uint16_t;
enum : Traits {
  // The categories of Unicode 8.0, which BERT's reference tokenizer uses:
  kDropped = 4,       // control, format or private use (Cc, Cf, Co) but for tab and line ends, and U+FFFD
  kMark = 8,          // without its own width, such as an accent (Mn)
  kPunctuation = 16,  // P*, and $ and all else in ASCII that is not a letter, digit, space or control character
  kSeparator = 32,    // white space that separates words: Zs, Zl, Zp, tab, line feed and carriage return
  kIdeograph = 64,    // of Chinese, Japanese or Korean
  // And for others:
  kOfWords = 128,  // belongs to words, beside what is_word_character looks up
  kLater = 256,    // has a combining class, or composes, and was added after Unicode 9.0, up to 18.0
};

constexpr Traits ascii_traits(size_t c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return static_cast<Traits>(CharacterClass::letter);
  if (c >= '0' && c <= '9') return static_cast<Traits>(CharacterClass::number);
  if (c > ' ' && c < 127) return kPunctuation;
  const Traits kind = c == ' ' || c == '\t' || c == '\n' || c == '\r' ? kSeparator : kDropped;
  return c == ' ' || (c >= '\t' && c <= '\r') ? kind | static_cast<Traits>(CharacterClass::space) : kind;
}
inline constexpr auto kAsciiTraits = [] {
  std::array<Traits, 128> traits{};
  for (size_t c = 0; c < traits.size(); ++c) traits[c] = ascii_traits(c);
  return traits;
}();

Traits traits_beyond_ascii(char32_t point);

inline Traits traits_of(char32_t point) {
  return point < kAsciiTraits.size() ? kAsciiTraits[point] : traits_beyond_ascii(point);
}

inline CharacterClass class_of(char32_t point) {
  return static_cast<CharacterClass>(traits_of(point) & 3);
}

/// Whether a code point is a number (N*) in Unicode 17.0, which the package's Digits step uses.
bool is_numeric(char32_t point);

/// Whether a code point belongs to words: a letter, a mark, a digit, a connector such as _, or a joiner. (\w of regular
/// expressions, Unicode Technical Standard 18, annex C.)
bool is_word_character(char32_t point);

/// The character at a place of a text. A byte that is not UTF-8 is a character of class other.
struct Character {
  CharacterClass kind = CharacterClass::other;
  uint8_t length = 1;
  Traits traits = 0;
};

inline Character character_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const CodePoint point = byte < kAsciiTraits.size() ? CodePoint{byte, 1} : decode_utf8(text, at);
  if (point.length == 0) return {};
  const Traits traits = traits_of(point.value);
  return {static_cast<CharacterClass>(traits & 3), static_cast<uint8_t>(point.length), traits};
}

/// Whether a byte of UTF-8 is the first of a character.
constexpr bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
}

/// The begin of the character whose last byte is before `end`; not before `begin`.
size_t character_before(std::string_view text, size_t end, size_t begin);

size_t characters_in(std::string_view text);

/// A text without the white space at its end.
std::string_view without_spaces_at_end(std::string_view text);

}  // namespace adjoin::data
