#include "adjoin/base/utf8.hpp"

#include <algorithm>

namespace adjoin {
namespace {

struct Range {
  char32_t first, last;
};

// The control characters of ASCII, and those of ISO 6429 above it, which can also begin escape sequences; then the format
// characters (Cf) of Unicode that turn the direction of what follows or have no width, and its separators of lines and
// paragraphs. Not those that write scripts and emoji, and do no more than that: the joiners U+200C and U+200D, tags, soft
// hyphens, and the signs that enclose Arabic numbers.
constexpr Range kDisturbing[] = {{0x0, 0x1f},      {0x7f, 0x9f},     {0x61c, 0x61c},   {0x180e, 0x180e},
                                 {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
                                 {0xfeff, 0xfeff}, {0xfff9, 0xfffb}};

void append_escaped(std::string& text, unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  if (byte == '\t')
    text += "\\t";
  else
    text.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15u]);
}

}  // namespace

CodePoint decode_utf8(std::string_view text, size_t at) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // of a form of so many bytes
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  char32_t value = byte(at);
  if (value < 0x80) return at < text.size() ? CodePoint{value, 1} : CodePoint{};
  const int length = value < 0xc0 ? 0 : value < 0xe0 ? 2 : value < 0xf0 ? 3 : value < 0xf8 ? 4 : 0;
  if (length == 0) return {};
  value &= 0x7fu >> length;
  for (size_t i = at + 1; i < at + static_cast<size_t>(length); ++i) {
    if ((byte(i) & 0xc0u) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3fu);
  }
  const bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
  return value < kLeast[length] || is_surrogate || value > 0x10ffff ? CodePoint{} : CodePoint{value, length};
}

void append_utf8(std::string& text, char32_t point) {
  if (point < 0x80) {
    text += static_cast<char>(point);
    return;
  }
  const unsigned more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;  // bytes of six bits each after the first
  const unsigned lead = 0xff80u >> more & 0xffu;
  text += static_cast<char>(lead | point >> (6 * more));
  for (unsigned left = more; left-- > 0;) text += static_cast<char>(0x80u | (point >> (6 * left) & 0x3fu));
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

bool disturbs_terminal(char32_t point) {
  return std::ranges::any_of(kDisturbing, [&](const Range& r) { return point >= r.first && point <= r.last; });
}

std::string printable(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const std::string_view bytes = text.substr(at, static_cast<size_t>(std::max(point.length, 1)));
    if (point.length > 0 && (point.value == '\n' || !disturbs_terminal(point.value)))
      shown += bytes;
    else
      for (const char byte : bytes) append_escaped(shown, static_cast<unsigned char>(byte));
    at += bytes.size();
  }
  return shown;
}

}  // namespace adjoin
