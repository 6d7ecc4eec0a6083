#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace adjoin {

/// The shape of a box of strided memory, in elements, outermost dim first. No dims: one element.
struct Box {
  std::vector<int64_t> sizes, strides;
};

/// The same elements in the same order with as few dims as can be: without those of one element, and with dims that
/// follow one another in memory made one.
Box merged(std::span<const int64_t> sizes, std::span<const int64_t> strides);

/// Copies the elements of one strided box to another of as many elements, each in row-major order of its own sizes. A
/// side without sizes is contiguous. No element of `to` comes twice, and the two do not overlap.
///
/// Cost: long runs go at the speed of copying, large ones past the caches; transposed dims by tiles of cache lines
void copy_box(void* to, std::span<const int64_t> to_sizes, std::span<const int64_t> to_strides, const void* from,
              std::span<const int64_t> from_sizes, std::span<const int64_t> from_strides, int64_t element_bytes);

}  // namespace adjoin
