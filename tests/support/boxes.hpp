#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace adjoin::testing {

/// A box within memory of `extent` elements, for tests that draw them by chance.
struct RandomBox {
  std::vector<int64_t> sizes, strides;
  int64_t extent = 0;

  int64_t count() const {
    int64_t elements = 1;
    for (const int64_t size : sizes) elements *= size;
    return elements;
  }

  /// Where element i of the row-major order lies; found anew for each element, as nothing else here does it.
  int64_t place(int64_t i) const {
    int64_t at = 0;
    for (size_t dim = sizes.size(); dim-- > 0; i /= sizes[dim]) at += i % sizes[dim] * strides[dim];
    return at;
  }
};

/// Sizes of 1 to 4 dims of some elements each; now and then one of none.
inline std::vector<int64_t> random_sizes(std::mt19937& random) {
  std::vector<int64_t> sizes(1 + random() % 4);
  for (int64_t& size : sizes) size = 1 + static_cast<int64_t>(random() % (sizes.size() > 2 ? 7 : 40));
  if (random() % 20 == 0) sizes[random() % sizes.size()] = 0;
  return sizes;
}

/// Memory for these sizes: dims in any order, with room between them; where it is only read some dims may be expanded
/// ones of stride 0.
inline RandomBox random_box(const std::vector<int64_t>& sizes, bool is_read, std::mt19937& random) {
  RandomBox box{sizes, std::vector<int64_t>(sizes.size()), 1};
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (random() % 2) std::shuffle(order.begin(), order.end(), random);
  for (size_t n = order.size(); n-- > 0;) {
    const size_t dim = order[n];
    if (is_read && random() % 8 == 0) continue;
    box.strides[dim] = box.extent + (random() % 3 == 0 ? static_cast<int64_t>(random() % 5) : 0);
    box.extent = box.strides[dim] * std::max<int64_t>(1, sizes[dim]);
  }
  return box;
}

/// Another way to cut as many elements into dims.
inline std::vector<int64_t> other_sizes(int64_t count, std::mt19937& random) {
  std::vector<int64_t> sizes;
  for (int64_t left = count; left > 1 && sizes.size() < 3;) {
    int64_t divisor = 1 + static_cast<int64_t>(random() % 12);
    while (left % divisor != 0) --divisor;
    sizes.push_back(divisor);
    left /= divisor;
  }
  const int64_t in_others = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  sizes.push_back(count / in_others);
  return sizes;
}

}  // namespace adjoin::testing
