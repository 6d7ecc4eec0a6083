#include "adjoin/base/utf8.hpp"

#include <utf8proc.h>

#include <algorithm>

namespace adjoin {
namespace {

/// The control characters of ASCII except line ends, and those of ISO 6429 above it, which can also begin escape
/// sequences.
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
  utf8proc_int32_t value = 0;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const auto length = utf8proc_iterate(bytes, std::ssize(text) - static_cast<utf8proc_ssize_t>(at), &value);
  return length > 0 ? CodePoint{static_cast<char32_t>(value), static_cast<int>(length)} : CodePoint{};
}

void append_utf8(std::string& text, char32_t point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
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
