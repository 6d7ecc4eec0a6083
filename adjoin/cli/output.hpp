#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace adjoin::cli {

/// A user's text for standard output: to the byte, but on a terminal in the form that is safe there (printable).
std::string shown_text(std::string_view text);

/// The value, or null if it equals `none`.
template <class Value>
nlohmann::ordered_json or_null(const Value& value, const Value& none = {}) {
  return value == none ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}

/// JSON on one line, safe for a terminal: it has what disturbs a terminal only as JSON escapes it, and U+FFFD for bytes that are not
/// UTF-8.
std::string json_line(const nlohmann::ordered_json& json);

/// Writes a text that may have any bytes to standard output; with the end of a line after it.
void write_out(std::string_view text);
void write_line(std::string_view text);

}  // namespace adjoin::cli
