#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "adjoin/base/hash.hpp"

namespace adjoin::data {

/// A small random generator with the same numbers on every machine, unlike the standard library's distributions.
/// Source: SplitMix64, Steele, Lea and Flood, OOPSLA 2014.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  /// A generator for one of many streams of a seed; the numbers of neighbouring seeds and streams are unrelated.
  SplitMix64(uint64_t seed, uint64_t stream) : state_(mix(mix(seed) + stream * kGamma)) {}

  uint64_t next() { return mix(state_ += kGamma); }

  /// An integer in [0, bound), all equally likely.
  uint64_t below(uint64_t bound) {
    const uint64_t uneven = (0 - bound) % bound;  // 2^64 mod bound: that many first values would favour some results
    uint64_t value = next();
    while (value < uneven) value = next();
    return value % bound;
  }

 private:
  static constexpr uint64_t kGamma = 0x9e3779b97f4a7c15u;

  uint64_t state_;
};

/// Puts the values into random order (Fisher and Yates).
template <class T>
void shuffle(std::vector<T>& values, SplitMix64& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

}  // namespace adjoin::data
