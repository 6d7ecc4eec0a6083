#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace adjoin::data {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// A hash table with texts as keys, in which a part of a text is looked up without a copy.
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

}  // namespace adjoin::data
