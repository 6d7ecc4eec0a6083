#pragma once

#include <torch/nn/options/normalization.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/movement/move.hpp"
#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

using torch::nn::GroupNormOptions;
using torch::nn::LayerNormOptions;

/// Options of RMSNorm, which torch::nn has in Python alone.
struct RMSNormOptions {
  /* implicit */ RMSNormOptions(std::vector<int64_t> normalized_shape)
      : normalized_shape_(std::move(normalized_shape)) {}
  TORCH_ARG(std::vector<int64_t>, normalized_shape);
  /// Added to the mean square; without, the epsilon of the type that x is computed in.
  TORCH_ARG(std::optional<double>, eps) = std::nullopt;
  TORCH_ARG(bool, elementwise_affine) = true;
};

/// A norm of each sample for itself: what the options of LayerNorm, RMSNorm and GroupNorm come to.
struct SampleNormGeometry {
  std::string name;
  std::vector<int64_t> shape;          ///< of weight and bias: the last dims of x, or its channels
  std::optional<int64_t> groups = {};  ///< GroupNorm: of the channels
  std::optional<double> eps = 1e-5;    ///< none: the epsilon of the type
  bool affine = true;
  bool centred = true;  ///< RMSNorm takes no mean away, and has no bias
};

/// Throws: InvalidArgument for an empty shape, or sizes below 1
SampleNormGeometry geometry_of(const LayerNormOptions& options);
SampleNormGeometry geometry_of(const RMSNormOptions& options);
/// Throws: InvalidArgument for channels that the groups do not divide
SampleNormGeometry geometry_of(const GroupNormOptions& options);

/// Normalises each sample over its last dims, or over groups of its channels, of an input that is cut in any way: also
/// over the dims that are normalised, and through groups.
///
/// The input stays where it is. Mean and variance are taken in two passes, as by BatchNorm; where each sample, or group,
/// lies on one worker, nothing moves. Weight and bias come to the features that a worker holds.
/// Shape:  LayerNorm, RMSNorm: [*, *normalized_shape]; GroupNorm: [batch, channels, *space] -> the same
/// Kinds:  any -> the placement's
/// Cost:   two all-reduces (RMSNorm: one) of a number a sample, or a group of each, each way; a move of the weights;
///         several passes over x
/// Source: Ba, Kiros, Hinton, arXiv 1607.06450; Zhang and Sennrich, arXiv 1910.07467; Wu and He, arXiv 1803.08494
class SampleNormImpl : public ShardedModule {
 public:
  /// Called by all workers of the world, those that hold nothing too.
  /// Throws: InvalidArgument on all of them where x is not of the options' shape, or a layout does not fit
  DistributedTensor forward(const DistributedTensor& x);

 protected:
  SampleNormImpl(SampleNormGeometry geometry, const Placement& placement, const Grid& grid);

 private:
  /// What is prepared for inputs of one layout.
  struct Prepared {
    Move read;                                          // without partial axes
    std::function<at::Tensor(const at::Tensor&)> mean;  // of what is normalised together, shaped to meet x
    Move affine;                                        // weight and bias, one behind another, to the features here
    Move write;
    int64_t dims_behind = 0;  // dims of x behind those of the weight
    bool links = false;       // as some worker holds nothing
  };
  Prepared prepare(const Layout& input) const;
  /// `type` is that of the input, of which x has been widened.
  at::Tensor normalised(const Prepared& prepared, const at::Tensor& x, at::ScalarType type) const;

  SampleNormGeometry geometry_;
  Layout weight_layout_;
  LayoutRule output_;
  PerLayout<Prepared> prepared_;
  at::Tensor weight_, bias_;
};

/// SampleNorm with the options of its twin.
template <class Options>
class SampleNormOf : public SampleNormImpl {
 public:
  /// Throws: InvalidArgument as geometry_of, or for a layout of the weight of another shape, partial or covering
  SampleNormOf(const Options& o, const Placement& placement, const Grid& grid)
      : SampleNormImpl(geometry_of(o), placement, grid), options(o) {}
  SampleNormOf(const Options& o, const Grid& grid) : SampleNormOf(o, Placement(), grid) {}

  const Options options;
};

using LayerNormImpl = SampleNormOf<LayerNormOptions>;
using RMSNormImpl = SampleNormOf<RMSNormOptions>;
using GroupNormImpl = SampleNormOf<GroupNormOptions>;
TORCH_MODULE(LayerNorm);
TORCH_MODULE(RMSNorm);
TORCH_MODULE(GroupNorm);

}  // namespace adjoin::nn
