#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/movement/move.hpp"

namespace adjoin::nn {

/// The sum of what each worker computes from its own part of a tensor. Where several workers hold copies of a part, it counts
/// once. The plan is made once, by the constructor.
class Total {
 public:
  /// `part` is the tensor's layout, `shape` the shape of each summand and of the total, `to` the layout of the total.
  Total(const Layout& part, std::vector<int64_t> shape, const Layout& to, const Grid& grid);

  /// Shape: `shape`; outside the part's grid any zero-volume tensor -> to.shape_on(rank)
  /// Cost:  an all-reduce forward where `to` is replicated on the part's grid; nothing backward
  at::Tensor operator()(const at::Tensor& summand) const;

  const Layout& layout() const { return sum_.to(); }

 private:
  bool counts_;  // this worker's summand counts
  Move sum_;
};

/// A layout that gives the tensor to all workers of a grid (Grid::workers): on the preferred shape if that has all of them, else on
/// one of them alone.
Layout on_all_workers(const GridShape& preferred, const Grid& grid, const std::vector<int64_t>& shape);

}  // namespace adjoin::nn
