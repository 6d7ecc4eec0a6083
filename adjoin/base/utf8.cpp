#include "adjoin/base/utf8.hpp"

#include <algorithm>

namespace adjoin {
namespace {

bool is_continuation(unsigned char byte) {
  return (byte & 0xc0u) == 0x80u;
}

int length_by_first_byte(unsigned char byte) {
  if (byte < 0x80u) return 1;
  if (byte >= 0xc2u && byte < 0xe0u) return 2;
  if (byte >= 0xe0u && byte < 0xf0u) return 3;
  if (byte >= 0xf0u && byte < 0xf5u) return 4;
  return 0;
}

bool is_scalar_of_length(char32_t value, int length) {
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  return value >= kSmallest[length] && value <= 0x10ffff && (value < 0xd800 || value > 0xdfff);
}

/// The controls of ASCII but line ends, and those of ISO 6429 above it, with which escape sequences may begin too.
bool moves_the_cursor(char32_t point) {
  return (point < 0x20 && point != '\n') || (point >= 0x7f && point < 0xa0);
}

void append_escaped(std::string& text, unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  if (byte == '\t')
    text += "\\t";
  else
    text.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15u]);
}

}  // namespace

CodePoint decode_utf8(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const int length = length_by_first_byte(first);
  if (length == 1) return {first, 1};
  if (length == 0 || at + static_cast<size_t>(length) > text.size()) return {};
  char32_t value = first & (0xffu >> (length + 1));
  for (int i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + static_cast<size_t>(i)]);
    if (!is_continuation(byte)) return {};
    value = (value << 6) | (byte & 0x3fu);
  }
  return is_scalar_of_length(value, length) ? CodePoint{value, length} : CodePoint{};
}

void append_utf8(std::string& text, char32_t point) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80u | ((point >> shift) & 0x3fu)); };
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xc0u | (point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    text += static_cast<char>(0xe0u | (point >> 12));
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xf0u | (point >> 18));
    tail(12), tail(6), tail(0);
  }
}

int64_t drop_invalid_utf8(std::string& text) {
  size_t kept = 0;
  for (size_t at = 0; at < text.size();) {
    const int length = decode_utf8(text, at).length;
    if (length == 0) {
      ++at;
      continue;
    }
    for (int i = 0; i < length; ++i) text[kept++] = text[at++];
  }
  const auto dropped = static_cast<int64_t>(text.size() - kept);
  text.resize(kept);
  return dropped;
}

std::string printable(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const std::string_view bytes = text.substr(at, static_cast<size_t>(std::max(point.length, 1)));
    if (point.length > 0 && !moves_the_cursor(point.value))
      shown += bytes;
    else
      for (const char byte : bytes) append_escaped(shown, static_cast<unsigned char>(byte));
    at += bytes.size();
  }
  return shown;
}

}  // namespace adjoin
