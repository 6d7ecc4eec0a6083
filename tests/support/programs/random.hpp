#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace adjoin::testing::programs {

/// Draws that are the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}

  /// 0 to n - 1.
  int below(int n) { return static_cast<int>(bits_() % static_cast<uint64_t>(n)); }
  int between(int least, int most) { return least + below(most - least + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& of) {
    return of[static_cast<size_t>(below(static_cast<int>(of.size())))];
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t n = items.size(); n > 1; --n)
      std::swap(items[n - 1], items[static_cast<size_t>(below(static_cast<int>(n)))]);
  }

 private:
  std::mt19937_64 bits_;
};

/// A number that looks random, of several.
inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u ^ (b + 0x632be59bd9b4e019u) * 0xd1342543de82ef95u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  return x ^ x >> 29;
}

}  // namespace adjoin::testing::programs
