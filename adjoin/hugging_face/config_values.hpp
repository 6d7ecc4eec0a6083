#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "adjoin/base/error.hpp"

namespace adjoin::train {

/// The value of a key of a config.json, and what a missing key stands for, as JSON; null counts as missing.
inline nlohmann::ordered_json value_of(const nlohmann::ordered_json& config, std::string_view key,
                                       std::string_view standard) {
  const auto found = config.find(std::string(key));
  return found == config.end() || found->is_null() ? nlohmann::ordered_json::parse(standard) : *found;
}

/// A key with its value, for an error.
inline std::string with_value(std::string_view key, const nlohmann::ordered_json& value) {
  return "\"" + std::string(key) +
         "\": " + value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

[[noreturn]] inline void refuse(std::string_view key, const nlohmann::ordered_json& value,
                                const std::string& expected) {
  throw InvalidArgument(with_value(key, value) + " is not supported; expected " + expected);
}

}  // namespace adjoin::train
