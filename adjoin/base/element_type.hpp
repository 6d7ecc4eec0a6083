#pragma once

#include <cstdint>
#include <string_view>

namespace adjoin {

/// What one element of a buffer is; the types that every backend moves and reduces.
enum class ElementType : uint8_t { boolean, uint8, int32, int64, float16, bfloat16, float32, float64 };

inline constexpr int kElementTypes = 8;

/// Bytes of one element.
constexpr int64_t size_of(ElementType type) {
  constexpr int64_t sizes[kElementTypes] = {1, 1, 4, 8, 2, 2, 4, 8};
  return sizes[static_cast<int>(type)];
}

/// The name used in messages and on the command line: "float32".
constexpr std::string_view name(ElementType type) {
  constexpr std::string_view names[kElementTypes] = {"bool",    "uint8",    "int32",   "int64",
                                                     "float16", "bfloat16", "float32", "float64"};
  return names[static_cast<int>(type)];
}

}  // namespace adjoin
