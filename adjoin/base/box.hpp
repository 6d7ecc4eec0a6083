#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace adjoin {

/// The shape of a box of strided memory, in elements, outermost dim first. No dims: one element.
struct Box {
  std::vector<int64_t> sizes, strides;
};

/// The same elements in the same order with the fewest dims: dims of one element are dropped, and dims that are
/// contiguous with each other in memory are merged.
Box merged(std::span<const int64_t> sizes, std::span<const int64_t> strides);

/// Copies the elements of one strided box to another box of equally many elements; each side is walked in row-major
/// order of its own sizes. A side without sizes is contiguous. Each element of `to` has its own address, and the two
/// boxes do not overlap.
///
/// Cost: long runs go at copying speed, and large copies bypass the caches; transposed dims go in tiles of cache lines
void copy_box(void* to, std::span<const int64_t> to_sizes, std::span<const int64_t> to_strides, const void* from,
              std::span<const int64_t> from_sizes, std::span<const int64_t> from_strides, int64_t element_bytes);

/// The bytes that a box occupies: addresses begin + k[0] stride[0] + k[1] stride[1] + …, each k from 0 to its `last`.
class BoxBytes {
 public:
  /// A box of `count` elements, contiguous where `sizes` is empty.
  BoxBytes(const void* begin, int64_t count, std::span<const int64_t> sizes, std::span<const int64_t> strides,
           int64_t element_bytes);

  /// True only where the two boxes certainly share a byte. False, without an answer, for a box with more than 8 dims
  /// longer than one, and where the strides leave too many combinations to try.
  /// Cost: no allocation
  friend bool overlap(const BoxBytes& a, const BoxBytes& b);

 private:
  struct Step {
    int64_t stride, last;
  };
  void add(int64_t stride, int64_t size);
  static bool is_sum(std::span<const Step> steps, int64_t wanted);

  static constexpr size_t kMostDims = 8;
  intptr_t begin_;
  int64_t low_ = 0, high_ = 0;  // the range of its bytes, relative to `begin`
  bool is_empty_;
  size_t dims_ = 0;
  std::array<Step, kMostDims> steps_;
};
bool overlap(const BoxBytes& a, const BoxBytes& b);

}  // namespace adjoin
