#include "adjoin/cli/output.hpp"

#include <unistd.h>

#include <cstdio>

#include "adjoin/base/utf8.hpp"

namespace adjoin::cli {

std::string shown_text(std::string_view text) {
  return ::isatty(STDOUT_FILENO) != 0 ? printable(text) : std::string(text);
}

std::string json_line(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
  std::string line;
  for (size_t at = 0; at < text.size();) {  // those below U+0020 are escaped already
    const CodePoint point = decode_utf8(text, at);
    const auto length = static_cast<size_t>(point.length);
    if (disturbs_terminal(point.value)) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(point.value));
      line += escaped;
    } else {
      line.append(text, at, length);
    }
    at += length;
  }
  return line;
}

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void write_line(std::string_view text) {
  write_out(text);
  std::putchar('\n');
}

}  // namespace adjoin::cli
