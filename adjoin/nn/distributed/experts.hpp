#pragma once

#include <string>

#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/nn/mixture_of_experts.hpp"

namespace adjoin::nn {

/// MixtureOfExperts of a tensor on any layout, whose first dim has the samples: each goes, whole, to one of the workers along all
/// axes of the grid but the tensor-parallel one, from there to the experts, and back.
///
/// The balance loss of a sample is that of all its rows, x[i]; its weight is that of the step which x carries. So `loss.backward()`
/// adds the routers' losses to it where x has such a step.
/// Shape:  [samples, *, features] -> the same
/// Kinds:  any -> the layout of x, sums taken, or the rule's
/// Cost:   two moves each way, and as MixtureOfExperts
class DistributedMixtureOfExpertsImpl : public torch::nn::Module {
 public:
  /// The grid has all workers of its world; `options` split neither rows nor samples.
  /// Throws: InvalidArgument as MixtureOfExperts, and where a worker is outside of the grid
  DistributedMixtureOfExpertsImpl(const MixtureOfExpertsOptions& options, const Grid& grid, const std::string& axis,
                                  LayoutRule output = {});

  /// Called by all workers of the world.
  /// Throws: InvalidArgument on all of them where x has other features, or a layout does not fit
  DistributedTensor forward(const DistributedTensor& x);

 private:
  struct Prepared {
    Move read, write;
    LocalRows rows;
    Layout output;
  };
  Prepared prepare(const Layout& input) const;

  std::string axis_;
  MixtureOfExperts experts_;
  LayoutRule output_;
  PerLayout<Prepared> prepared_;
};
TORCH_MODULE(DistributedMixtureOfExperts);

}  // namespace adjoin::nn
