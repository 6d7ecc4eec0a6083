#include "adjoin/cli/output.hpp"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/wrap.hpp"

namespace adjoin::cli {

std::string shown_text(std::string_view text) {
  return ::isatty(STDOUT_FILENO) != 0 ? printable(text) : std::string(text);
}

std::string formatted(const char* format, ...) {
  char text[400];  // a double has up to 309 digits before the point
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

std::string json_line(const Json& json) {
  const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
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

void Report::table(Json& place, std::string_view sides, size_t rows, const std::function<Row(size_t)>& row_at) {
  std::vector<std::vector<std::string>> lines(as_json || rows == 0 ? 0 : rows + 1);
  place = Json::array();
  for (size_t i = 0; i < rows; ++i) {
    Json& object = place.emplace_back();
    for (Cell& cell : row_at(i)) {
      const auto names = parts_of(cell.names, '=');
      if (!as_json && !names.front().empty()) {
        if (i == 0) lines[0].emplace_back(names.front());
        const Json& value = cell.value;
        lines[i + 1].push_back(cell.text ? *cell.text : value.is_string() ? value.get<std::string>() : value.dump());
      }
      if (!names.back().empty()) object[std::string(names.back())] = std::move(cell.value);
    }
  }
  text << table_text(lines, sides, kPage);
}

void Report::print_text() {
  if (as_json || !prints()) return;
  write_out(shown_text(text.str()));
  text.str("");
  std::fflush(stdout);
}

void Report::print() {
  print_text();
  if (as_json && prints()) write_line(json_line(json));
}

}  // namespace adjoin::cli
