#pragma once

#include <torch/nn/options/linear.h>
#include <torch/nn/pimpl.h>

#include "adjoin/nn/distributed/weighted.hpp"

namespace adjoin::nn {

using torch::nn::LinearOptions;

/// x W^T + b, where input, weight and output each lie on any layout, on grids of their own.
///
/// The weight stays where it is: x is moved to its input features, and each of its workers multiplies. Along the axes
/// that cut its outputs x is copied; along those that cut its inputs the products are summands; along those on which it
/// is copied each worker takes other rows. So these are all this layer, by the layouts alone:
///
/// | form | x | weight [out, in] | output |
/// | --- | --- | --- | --- |
/// | Megatron's column-parallel, f | replicated | cut by out | cut by features |
/// | Megatron's row-parallel, g | cut by features | cut by in | replicated |
/// | all-gather (also sequence-parallel) | cut by features or tokens | cut by out | cut by features |
/// | reduce-scatter (also sequence-parallel) | cut by features | cut by in | cut by features or tokens |
/// | data-parallel | cut by rows | copied | cut by rows |
/// | fused query-key-value, grouped-query heads, GEGLU | as column-parallel | out cut by ranges, some of each | as made |
///
/// Shape:  x [*, in], weight [out, in], bias [out] -> [*, out]
/// Kinds:  any -> the placement's
/// Cost:   two moves each way, which are the collectives of those forms where the layouts are theirs; one product
/// Source: Shoeybi et al., arXiv 1909.08053; Hewett and Grady, arXiv 2006.03108, section 4
class LinearImpl : public ShardedModule {
 public:
  /// Throws: InvalidArgument for features below 1, a weight of another shape, or one that is partial
  LinearImpl(const LinearOptions& options, const Placement& placement, const Grid& grid);
  LinearImpl(const LinearOptions& options, const Grid& grid) : LinearImpl(options, Placement(), grid) {}

  /// Called by all workers of the world, those that hold nothing too.
  /// Throws: InvalidArgument on all of them where x has not `in_features`, or a layout does not fit
  DistributedTensor forward(const DistributedTensor& x);

  const LinearOptions options;

 private:
  Route plan(const Layout& input) const;

  Layout weight_layout_;
  Shares shares_;
  LayoutRule output_;
  Routes routes_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(Linear);

}  // namespace adjoin::nn
