#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/base/buffer.hpp"
#include "adjoin/comm/reduction.hpp"

/// What the self-test sends: elements of any type that are small whole numbers, which every type holds exactly (bool:
/// whether they are odd), so that results can be compared without a tolerance.
namespace adjoin::self_test_detail {

class Elements {
 public:
  /// Numbers 0 to 100 that differ from seed to seed.
  static Elements pattern(ElementType type, int64_t count, int seed);
  /// A number that no pattern has.
  static Elements unset(ElementType type, int64_t count);
  /// What one rank gives to a reduction: at each place two ranks give numbers that matter, the others what changes
  /// little or nothing, so that the result stays small on any number of ranks.
  static Elements part(ElementType type, int64_t count, Reduction reduction, int rank, int size);
  /// What comes of all ranks' parts.
  static Elements reduced(ElementType type, int64_t count, Reduction reduction, int size);

  Buffer buffer() { return {bytes_.data(), count_, type_}; }
  ConstBuffer buffer() const { return {bytes_.data(), count_, type_}; }
  double get(int64_t i) const;
  void set(int64_t i, double number);
  void append(const Elements& others);
  Elements slice(int64_t begin, int64_t count) const;

  /// "float32 x 7, WHERE: expected 3 at element 2, got 5"; "" where `got` is the same, up to a relative tolerance.
  std::string difference(const Elements& got, const std::string& where, double tolerance = 0) const;

 private:
  Elements(ElementType type, int64_t count)
      : type_(type), count_(count), bytes_(static_cast<size_t>(count * size_of(type))) {}

  ElementType type_;
  int64_t count_;
  std::vector<char> bytes_;
};

}  // namespace adjoin::self_test_detail
