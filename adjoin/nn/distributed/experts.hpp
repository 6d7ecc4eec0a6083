#pragma once

#include <string>

#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/nn/mixture_of_experts.hpp"

namespace adjoin::nn {

/// MixtureOfExperts of a tensor on any layout, whose first dim counts samples. Each whole sample goes to one of the workers
/// along all axes of the grid except the tensor-parallel one, from there to the experts, and back.
///
/// The balance loss of a sample is taken over all its rows, x[i]; its weight comes from the step that x carries. So
/// `loss.backward()` adds the routers' losses where x has such a step.
/// Shape:  [samples, *, features] -> the same
/// Kinds:  any -> the layout of x with its sums taken, or as the rule says
/// Cost:   two moves each way, and that of MixtureOfExperts
class DistributedMixtureOfExpertsImpl : public torch::nn::Module {
 public:
  /// The grid must have all workers of its world; `options` must split neither rows nor samples.
  /// Throws: InvalidArgument as MixtureOfExperts, and where a worker is outside of the grid
  DistributedMixtureOfExpertsImpl(const MixtureOfExpertsOptions& options, const Grid& grid, const std::string& axis,
                                  LayoutRule output = {});

  /// All workers of the world call it.
  /// Throws: InvalidArgument on all workers where x has other features, or a layout does not fit
  DistributedTensor forward(const DistributedTensor& x);

 private:
  struct Prepared {
    Move read, write;
    LocalTokenRows rows;
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
