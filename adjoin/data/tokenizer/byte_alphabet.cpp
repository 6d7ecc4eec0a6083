#include "adjoin/data/tokenizer/byte_alphabet.hpp"

#include <array>
#include <cstdio>

#include "adjoin/base/utf8.hpp"

namespace adjoin::data {
namespace {

constexpr size_t kCharacters = 256 + 68;  // code points; 68 bytes have characters beyond the 256

/// The byte that each code point stands for, -1 for none. The printable characters of Latin-1 stand for themselves; U+0100 and
/// the following ones stand for the other bytes, in order.
constexpr std::array<int, kCharacters> make_bytes() {
  std::array<int, kCharacters> bytes{};
  for (int& byte : bytes) byte = -1;
  size_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    bytes[is_printable ? static_cast<size_t>(byte) : next++] = byte;
  }
  return bytes;
}

constexpr auto kByteOfCharacter = make_bytes();

}  // namespace

std::optional<std::string> bytes_of_piece(std::string_view piece) {
  std::string bytes;
  for (size_t at = 0; at < piece.size();) {
    const CodePoint point = decode_utf8(piece, at);
    if (point.length == 0 || point.value >= kCharacters || kByteOfCharacter[point.value] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOfCharacter[point.value]);
    at += static_cast<size_t>(point.length);
  }
  return bytes;
}

std::string byte_piece(size_t byte) {
  char piece[8];
  std::snprintf(piece, sizeof piece, "<0x%02X>", static_cast<unsigned>(byte));
  return piece;
}

}  // namespace adjoin::data
