#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"

// Parts of JSON, read with errors in one line. All throw InvalidArgument for other forms.

namespace adjoin::program {

using Json = nlohmann::ordered_json;

inline std::string in_quotes(const std::string& text) {
  constexpr size_t kShown = 80;
  return Json(text.substr(0, kShown) + (text.size() > kShown ? "..." : ""))
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

inline const Json& object(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  require(found != json.end(), [&] { return "expected an object with " + in_quotes(key); });
  return *found;
}
inline const Json& list(const Json& json, const char* key) {
  const Json& value = object(json, key);
  require(value.is_array(), [&] { return in_quotes(key) + " is no list"; });
  return value;
}
inline std::string string(const Json& json) {
  require(json.is_string(), "expected a text");
  return json.get<std::string>();
}
inline bool is_one_line(const std::string& text) {
  return std::ranges::none_of(text, [](char letter) { return static_cast<unsigned char>(letter) < ' '; });
}
/// A name, which errors show.
inline std::string text(const Json& json, const char* key) {
  std::string text = string(object(json, key));
  require(is_one_line(text), [&] { return in_quotes(key) + " holds a control character"; });
  return text;
}
inline bool boolean(const Json& json) {
  require(json.is_boolean(), "expected true or false");
  return json.get<bool>();
}
inline int64_t integer(const Json& json) {
  require(json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= INT64_MAX),
          "expected a whole number");
  return json.get<int64_t>();
}
/// Of a number that is not finite: "Infinity", "-Infinity", "NaN".
inline double real(const Json& json) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (json == "Infinity" || json == "inf") return kInfinity;
  if (json == "-Infinity" || json == "-inf") return -kInfinity;
  if (json == "NaN" || json == "nan") return std::numeric_limits<double>::quiet_NaN();
  require(json.is_number(), "expected a number");
  return json.get<double>();
}
/// The key and the value of an object that has one of them.
inline std::pair<std::string, const Json&> only(const Json& json) {
  require(json.is_object() && json.size() == 1, "expected an object of one entry");
  return {json.begin().key(), json.begin().value()};
}
/// The value of a key of an object in an object; none where it is missing.
inline const Json* find(const Json& json, const char* outer, const std::string& key) {
  const auto found = json.find(outer);
  if (found == json.end() || !found->is_object()) return nullptr;
  const auto value = found->find(key);
  return value == found->end() ? nullptr : &*value;
}

}  // namespace adjoin::program
