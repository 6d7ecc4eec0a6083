#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/movement/move.hpp"

namespace adjoin::nn {

/// The mean of each sample over groups of its channels and all of its space, whoever holds their parts, prepared. Groups
/// may be cut through, and their channels lie in any order.
class GroupMean {
 public:
  /// Throws: InvalidArgument for a layout that is partial or has a covering split
  GroupMean(const Layout& x, int64_t groups, const Grid& grid);

  /// Shape: x [batch, channels, *space] -> [batch, channels, 1, …]: of each channel here, the mean of its group; [0]
  ///        outside the grid
  /// Kinds: copied along the axes that cut space, else as x
  /// Cost:  an all-reduce of a number a sample and group each way, along the axes that cut space, and those that cut
  ///        channels where a group is cut through
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  Move sum_;
  int64_t count_ = 1;        // numbers to each mean
  int64_t groups_here_ = 0;  // sums that are made here
  at::Tensor group_of_;      // of each channel here, its group's place among them; none outside the grid
};

}  // namespace adjoin::nn
