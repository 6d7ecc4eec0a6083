#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/movement/move.hpp"

namespace adjoin::nn {

/// The mean of each sample over groups of its channels and all of its space, whichever workers hold their parts. The plan is
/// made once, by the constructor. A cut may go through a group, and channels may be in any order.
class GroupMean {
 public:
  /// Throws: InvalidArgument for a layout that is partial or has a covering split
  GroupMean(const Layout& x, int64_t groups, const Grid& grid);

  /// Shape: x [batch, channels, *space] -> [batch, channels, 1, …]: for each channel on this worker, the mean of its group; [0]
  ///        outside the grid
  /// Kinds: copied along the axes that cut space, else as x
  /// Cost:  an all-reduce each way of one number for each sample and group, along the axes that cut space and, where a group is
  ///        cut, also those that cut channels
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  Move sum_;
  int64_t count_ = 1;        // how many numbers each mean is taken over
  int64_t groups_here_ = 0;  // number of sums that this worker makes
  at::Tensor group_of_;      // for each channel here, its group's place among the groups here; none outside the grid
};

}  // namespace adjoin::nn
