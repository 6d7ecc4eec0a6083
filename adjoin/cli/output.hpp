#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::cli {

using Json = nlohmann::ordered_json;

/// A user's text for standard output: to the byte, but on a terminal in the form that is safe there (printable).
std::string shown_text(std::string_view text);

/// The value, or null if it equals `none`.
template <class Value>
Json or_null(const Value& value, const Value& none = {}) {
  return value == none ? Json() : Json(value);
}

/// A list of what `json_of` makes of each thing.
template <class Things, class JsonOf>
Json list_of(const Things& things, const JsonOf& json_of) {
  Json list = Json::array();
  for (const auto& thing : things) list.push_back(json_of(thing));
  return list;
}

/// A text as printf makes it, of up to 399 bytes.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

/// JSON on one line, safe for a terminal: it has what disturbs a terminal only as JSON escapes it, and U+FFFD for bytes that are not
/// UTF-8.
std::string json_line(const Json& json);

/// Writes a text that may have any bytes to standard output; with the end of a line after it.
void write_out(std::string_view text);
void write_line(std::string_view text);

/// What a row of a table has in one column: the column's names "heading=key", the value for programs, and the text for people,
/// where that is another.
/// Without a heading the column is for programs alone, without a key for people alone, and "name" is heading and key.
struct Cell {
  const char* names;
  Json value;
  std::optional<std::string> text{};
};

using Row = std::vector<Cell>;

/// What a command has found: text for people, or with --json one value for programs. A command adds to both.
struct Report {
  bool as_json;
  std::ostringstream text{};
  Json json{};

  /// Adds rows: as a table to the text, with sides as table_text takes them, or as a list of objects to a place in `json`.
  void table(Json& place, std::string_view sides, size_t rows, const std::function<Row(size_t)>& row_at);

  /// Prints the text that has come until now, unless programs read.
  void print_text();
  /// Prints the text, or the JSON on one line; in an MPI job on rank 0 alone. Safe for a terminal.
  void print();
};

}  // namespace adjoin::cli
