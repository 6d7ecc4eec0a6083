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

/// Options of RMSNorm, which torch::nn has only in Python.
struct RMSNormOptions {
  /* implicit */ RMSNormOptions(std::vector<int64_t> normalized_shape)
      : normalized_shape_(std::move(normalized_shape)) {}
  TORCH_ARG(std::vector<int64_t>, normalized_shape);
  /// Added to the mean square; by default the epsilon of the type that x is computed in.
  TORCH_ARG(std::optional<double>, eps) = std::nullopt;
  TORCH_ARG(bool, elementwise_affine) = true;
};

/// A norm of each sample: the options of LayerNorm, RMSNorm and GroupNorm in one form.
struct SampleNormGeometry {
  std::string name;
  std::vector<int64_t> shape;          ///< of weight and bias: the last dims of x, or its channels
  std::optional<int64_t> groups = {};  ///< GroupNorm: number of groups of channels
  std::optional<double> eps = 1e-5;    ///< none: the epsilon of the type
  bool affine = true;                  ///< whether a module has a weight
  bool centred = true;                 ///< false for RMSNorm, which subtracts no mean and has no bias
  bool bias = true;                    ///< whether a module has a bias besides a weight
};

/// Throws: InvalidArgument for an empty shape, or sizes below 1
SampleNormGeometry geometry_of(const LayerNormOptions& options);
SampleNormGeometry geometry_of(const RMSNormOptions& options);
/// Throws: InvalidArgument for channels that the groups do not divide
SampleNormGeometry geometry_of(const GroupNormOptions& options);

/// Normalises each sample over its last dims, or over groups of its channels. The input may be cut in any way, also over the
/// normalised dims and through groups.
///
/// The input stays where it is. Mean and variance are computed in two passes, as in BatchNorm; where each sample or group is
/// whole on one worker, nothing moves. Weight and bias are moved to the workers that hold their features.
/// Shape:  LayerNorm, RMSNorm: [*, *normalized_shape]; GroupNorm: [batch, channels, *space] -> the same
/// Kinds:  any -> as the placement says
/// Cost:   two all-reduces (RMSNorm: one) each way, of one number for each sample, or for each group of a sample; a move of the
///         weights; several passes over x
/// Source: Ba, Kiros, Hinton, arXiv 1607.06450; Zhang and Sennrich, arXiv 1910.07467; Wu and He, arXiv 1803.08494
class SampleNorm {
 public:
  /// Throws: InvalidArgument for a weight of another shape
  SampleNorm(SampleNormGeometry geometry, const LayerLayouts& placement, const Grid& grid);

  const Layout& weight() const { return weight_; }  ///< the layout of the weight and of the bias that it takes
  /// All workers of the world call it with their pieces, also those that hold nothing. Weight and bias may be undefined.
  /// Throws: InvalidArgument on all workers where x does not have the geometry's shape, or a layout does not fit
  DistributedTensor operator()(const DistributedTensor& x, const at::Tensor& weight, const at::Tensor& bias);

 private:
  /// What is prepared for inputs of one layout.
  struct Prepared {
    Move read;                                          // without partial axes
    std::function<at::Tensor(const at::Tensor&)> mean;  // over what is normalised together; broadcasts against x
    Move affine;                                        // weight and bias, stacked, to the features here
    Move write;
    int64_t dims_behind = 0;  // number of x's dims after those of the weight
    bool links = false;       // some worker holds nothing
  };
  Prepared prepare(const Layout& input) const;

  SampleNormGeometry geometry_;
  Layout weight_;
  LayoutRule output_;
  PerLayout<Prepared> prepared_;
};

/// A SampleNorm that owns its weight and bias.
class SampleNormImpl : public ShardedModule {
 public:
  SampleNormImpl(const SampleNormGeometry& geometry, const LayerLayouts& placement, const Grid& grid);

  DistributedTensor forward(const DistributedTensor& x) { return norm_(x, weight_, bias_); }

 private:
  SampleNorm norm_;
  at::Tensor weight_, bias_;
};

/// SampleNormImpl with the options of its twin.
template <class Options>
class SampleNormOf : public SampleNormImpl {
 public:
  /// `bias`: whether there is one besides a weight, which torch::nn's options tell only in Python.
  /// Throws: InvalidArgument as geometry_of, or for a layout of the weight that has another shape, is partial or covering
  SampleNormOf(const Options& o, const LayerLayouts& placement, const Grid& grid, bool bias = true)
      : SampleNormImpl(with_bias(geometry_of(o), bias), placement, grid), options(o) {}
  SampleNormOf(const Options& o, const Grid& grid) : SampleNormOf(o, LayerLayouts(), grid) {}

  const Options options;

 private:
  static SampleNormGeometry with_bias(SampleNormGeometry geometry, bool bias) {
    geometry.bias = bias && geometry.centred;
    return geometry;
  }
};

using LayerNormImpl = SampleNormOf<LayerNormOptions>;
using RMSNormImpl = SampleNormOf<RMSNormOptions>;
using GroupNormImpl = SampleNormOf<GroupNormOptions>;
TORCH_MODULE(LayerNorm);
TORCH_MODULE(RMSNorm);
TORCH_MODULE(GroupNorm);

}  // namespace adjoin::nn
