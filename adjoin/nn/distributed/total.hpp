#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/movement/move.hpp"

namespace adjoin::nn {

/// The sum of what each worker makes of its own part of a tensor, prepared. What several workers hold copies of counts
/// once.
class Total {
 public:
  /// `part` is the tensor's layout, `shape` that of a summand and of the total, which is to lie as `to` says.
  Total(const Layout& part, std::vector<int64_t> shape, const Layout& to, const Grid& grid);

  /// Shape: `shape`; outside the part's grid any zero-volume tensor -> to.shape_on(rank)
  /// Cost:  an all-reduce forward where `to` is replicated on the part's grid; nothing backward
  at::Tensor operator()(const at::Tensor& summand) const;

  const Layout& layout() const { return sum_.to(); }

 private:
  bool counts_;  // this worker's summand is one
  Move sum_;
};

/// A tensor that all workers of the world have: on a grid of them all, the preferred one where that is one.
Layout on_all_workers(const GridShape& preferred, const Grid& grid, const std::vector<int64_t>& shape);

}  // namespace adjoin::nn
