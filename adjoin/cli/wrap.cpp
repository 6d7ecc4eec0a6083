#include "adjoin/cli/wrap.hpp"

#include <algorithm>

namespace adjoin::cli {
namespace {

bool begins_a_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0u) != 0x80u;
}

/// The number of bytes of the first `characters` characters.
size_t bytes_of(std::string_view text, size_t characters) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if (begins_a_character(text[at]) && characters-- == 0) break;
  return at;
}

/// Where to break a text that is longer than `width`: at the last space before which the text fits; within a word only if it is
/// longer, and there between its parts if it has any: "small|", "--bucket,".
size_t break_of(std::string_view text, size_t width, size_t first_word) {
  const size_t most = bytes_of(text, width);
  const size_t space = text.rfind(' ', most);
  if (space != text.npos && space > first_word) return space;
  const size_t mark = text.substr(0, most).find_last_of("|,/");
  return mark == text.npos || mark < first_word ? most : mark + 1;
}

void append_wrapped(std::string& out, std::string_view line, size_t width, size_t hanging) {
  size_t indent = 0;  // of the rest of the line
  while (bytes_of(line, width - indent) < line.size()) {
    const size_t end = break_of(line, width - indent, line.find_first_not_of(' '));
    out.append(line.substr(0, end)).append("\n").append(hanging, ' ');
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    indent = hanging;
  }
  out += line;
}

}  // namespace

std::string wrapped(std::string_view text, size_t width, size_t hanging) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    append_wrapped(out, text.substr(0, end), width, text.starts_with(' ') ? hanging : 0);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace adjoin::cli
