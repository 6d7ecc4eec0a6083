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

/// The same elements in the same order with as few dims as can be: without those of one element, and with dims that
/// follow one another in memory made one.
Box merged(std::span<const int64_t> sizes, std::span<const int64_t> strides);

/// Copies the elements of one strided box to another of as many elements, each in row-major order of its own sizes. A
/// side without sizes is contiguous. No element of `to` comes twice, and the two do not overlap.
///
/// Cost: long runs go at the speed of copying, large ones past the caches; transposed dims by tiles of cache lines
void copy_box(void* to, std::span<const int64_t> to_sizes, std::span<const int64_t> to_strides, const void* from,
              std::span<const int64_t> from_sizes, std::span<const int64_t> from_strides, int64_t element_bytes);

/// The bytes of a box in memory: places begin + k[0] stride[0] + k[1] stride[1] + …, each k from 0 to its `last`.
class BoxBytes {
 public:
  /// Of `count` elements, contiguous where there are no sizes.
  BoxBytes(const void* begin, int64_t count, std::span<const int64_t> sizes, std::span<const int64_t> strides,
           int64_t element_bytes);

  /// Whether a byte is of both for certain. Of boxes of more than 8 dims longer than one nothing is said, nor where
  /// strides are such that too many places come into question.
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
  int64_t low_ = 0, high_ = 0;  // of the bytes, from `begin`
  bool is_empty_;
  size_t dims_ = 0;
  std::array<Step, kMostDims> steps_;
};
bool overlap(const BoxBytes& a, const BoxBytes& b);

}  // namespace adjoin
