#pragma once

#include <torch/nn/options/linear.h>
#include <torch/nn/pimpl.h>

#include "adjoin/nn/distributed/weighted.hpp"

namespace adjoin::nn {

using torch::nn::LinearOptions;

/// x W^T + b. Input, weight and output may each have any layout, each on its own grid.
///
/// The weight stays where it is: x is moved to the workers that hold its input features, and each multiplies. Along the axes
/// that cut the outputs x is copied; along those that cut the inputs the products are summands; along those on which the weight
/// is copied each worker takes other rows. So this one layer is all of these forms, by the layouts alone:
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
/// Kinds:  any -> as the placement says
/// Cost:   one product, and two moves each way, which are the collectives of those forms where the layouts are theirs
/// Source: Shoeybi et al., arXiv 1909.08053; Hewett and Grady, arXiv 2006.03108, section 4
class LinearImpl : public ShardedModule {
 public:
  /// Throws: InvalidArgument for features below 1, a weight of another shape, or a partial weight
  LinearImpl(const LinearOptions& options, const LayerLayouts& placement, const Grid& grid);
  LinearImpl(const LinearOptions& options, const Grid& grid) : LinearImpl(options, LayerLayouts(), grid) {}

  /// All workers of the world call it, also those that hold nothing.
  /// Throws: InvalidArgument on all workers where x does not have `in_features`, or a layout does not fit
  DistributedTensor forward(const DistributedTensor& x);

  const LinearOptions options;

 private:
  Route plan(const Layout& input) const;

  Layout weight_layout_;
  WorkDivision division_;
  LayoutRule output_;
  Routes routes_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(Linear);

}  // namespace adjoin::nn
