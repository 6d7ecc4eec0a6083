#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace adjoin::nn::fixed {

/// The largest absolute value of a flat tensor, at least 0; infinity where one is not finite.
double largest_of(const at::Tensor& x);

/// A sum of squares of float32 numbers that does not depend on the order of the summands: two sums of parts of each square, all
/// multiples of a unit that follows from the largest number, so that no sum is rounded. For at most 2^31 numbers; the squares are
/// exact to 2^-44 of the largest.
/// Source: Demmel and Nguyen, "Fast reproducible floating-point summation", ARITH 2013
class Squares {
 public:
  /// `largest`: of all numbers that are added, on all ranks; finite.
  explicit Squares(double largest);
  void add(const at::Tensor& x);
  double total() const { return sums[0] + sums[1]; }

  std::array<double, 2> sums{};  ///< may be added over ranks, in any order

 private:
  std::array<double, 2> magic_;  // adding it and taking it away again rounds to a multiple of the unit
};

}  // namespace adjoin::nn::fixed
