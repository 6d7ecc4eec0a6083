#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/movement/move.hpp"

namespace adjoin::nn {

/// The mean of a tensor over some of its dims, whichever workers hold their parts. The plan is made once, by the constructor.
class DimMean {
 public:
  /// Throws: InvalidArgument for a layout that is partial or has a covering split
  DimMean(const Layout& x, const std::vector<int64_t>& dims, const Grid& grid);

  /// Shape: layout.shape_on(rank) -> the same with 1 in the dims; [0] outside the grid
  /// Kinds: copied along the axes that cut the dims, else as x
  /// Cost:  an all-reduce of the result each way
  at::Tensor operator()(const at::Tensor& x) const;
  /// The sum instead of the mean.
  at::Tensor sum(const at::Tensor& x) const;

  /// How many numbers each mean is taken over.
  int64_t count() const { return count_; }

 private:
  Grid grid_;
  std::vector<int64_t> dims_;
  int64_t count_ = 1;
  bool is_here_;  // this worker is in the grid
  Move sum_;
};

}  // namespace adjoin::nn
