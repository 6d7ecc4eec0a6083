#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/base/buffer.hpp"

namespace adjoin::lab {

using Values = std::vector<double>;

/// Elements of any type, as numbers and as the memory that is sent. An integer type keeps the low bits of a whole
/// number, as many as it has; a bool keeps whether it is odd.
struct Elements {
  Elements(ElementType type, const Values& values);

  int64_t count() const { return static_cast<int64_t>(bytes.size()) / size_of(type); }
  Buffer buffer() { return {bytes.data(), count(), type}; }
  ConstBuffer buffer() const { return {bytes.data(), count(), type}; }
  Values values() const;
  bool operator==(const Elements&) const = default;

  ElementType type;
  std::vector<char> bytes;
};

/// "float32 x 7, WHERE: expected 3 at element 2, got 5"; "" where `got` is equal, up to a relative tolerance.
std::string difference(const Elements& expected, const Elements& got, const std::string& where, double tolerance = 0);

}  // namespace adjoin::lab
