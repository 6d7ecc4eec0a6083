#pragma once

#include <torch/nn/options/batchnorm.h>
#include <torch/nn/options/instancenorm.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "adjoin/nn/distributed/normalise.hpp"
#include "adjoin/nn/distributed/of_space.hpp"
#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

ADJOIN_OPTIONS_OF_SPACE(BatchNorm);
using torch::nn::BatchNormOptions;
ADJOIN_OPTIONS_OF_SPACE(InstanceNorm);
using torch::nn::InstanceNormOptions;

/// A norm of channels by their mean and variance: the options of BatchNorm and InstanceNorm in one form.
struct ChannelNormGeometry {
  std::string name;
  size_t space = 2;         ///< number of dims of space; where it is 1, x may have none
  bool per_sample = false;  ///< InstanceNorm: each sample's own statistics
  int64_t features = 0;
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< of a module; none: running statistics are the mean over all batches
  bool affine = true, tracks = true, bias = true;  ///< what a module owns; a bias only besides a weight
};

/// What a norm of channels takes besides x, as F.batch_norm does.
struct ChannelNormArguments {
  at::Tensor weight = {}, bias = {}, running_mean = {}, running_var = {};  ///< may be undefined
  bool training = true;
  double momentum = 0.1;  ///< the share of a batch in the running statistics that training updates in place
};

/// Normalises each channel by mean and variance, over an input that is cut in any way.
///
/// The input stays where it is. Each worker computes mean and variance of its own part, and merges them with the others'.
/// Weight and bias are moved to the workers that hold their channels; running statistics, with the unbiased variance, are moved
/// back to where they are kept.
/// Shape:  [batch, channels, *space] -> the same
/// Kinds:  any -> as the placement says
/// Cost:   an all-gather of two numbers a channel forward and an all-reduce of two backward; moves of two numbers a channel
///         where weight, bias and running statistics are not kept where x is; x is read twice each way
class ChannelNorm {
 public:
  /// Throws: InvalidArgument for no features, or a weight of another shape
  ChannelNorm(ChannelNormGeometry geometry, const LayerLayouts& placement, const Grid& grid);

  const ChannelNormGeometry& geometry() const { return geometry_; }
  const Layout& weight() const { return weight_; }  ///< the layout of all tensors that it takes
  /// All workers of the world call it with their pieces, also those that hold nothing. It normalises by the running statistics
  /// if it is given some and does not train, else by those of x.
  /// Throws: InvalidArgument on all workers where x has other channels or dims, or in training only one number a channel
  DistributedTensor operator()(const DistributedTensor& x, const ChannelNormArguments& with);

 private:
  /// What is prepared for inputs of one layout.
  struct Prepared {
    Move read;  // without partial axes
    std::shared_ptr<const ChannelMoments> moments;
    Move affine;  // weight and bias, as [2, channels], to the channels on this worker
    Move statistics,
        home;  // running statistics to the channels here; sums over samples of new ones to where they are kept
    Move write;
  };
  Prepared prepare(const Layout& input) const;
  at::Tensor normalised(const Prepared& prepared, const at::Tensor& x, const ChannelNormArguments& with) const;
  /// Updates the running statistics.
  void track(const Prepared& prepared, const Normalised& batch, const ChannelNormArguments& with) const;

  ChannelNormGeometry geometry_;
  Layout weight_;
  LayoutRule output_;
  PerLayout<Prepared> prepared_;
};

/// A ChannelNorm that owns its tensors.
class ChannelNormImpl : public ShardedModule {
 public:
  ChannelNormImpl(const ChannelNormGeometry& geometry, const LayerLayouts& placement, const Grid& grid);

  /// It trains unless `eval` was called.
  DistributedTensor forward(const DistributedTensor& x);

 private:
  ChannelNorm norm_;
  ChannelNormArguments arguments_;
  at::Tensor num_batches_tracked_;
};

/// ChannelNormImpl with the options of its twins in torch::nn, for `space` dims of space.
template <class Options, size_t space>
class ChannelNormOf : public ChannelNormImpl {
 public:
  /// `bias`: whether there is one besides a weight, which torch::nn's options tell only in Python.
  /// Throws: InvalidArgument for no features, or for a layout of the channels that has another shape, is partial or covering
  ChannelNormOf(const Options& o, const LayerLayouts& placement, const Grid& grid, bool bias = true)
      : ChannelNormImpl({.name = (is_instance ? "InstanceNorm" : "BatchNorm") + std::to_string(space) + "d",
                         .space = space,
                         .per_sample = is_instance,
                         .features = o.num_features(),
                         .eps = o.eps(),
                         .momentum = o.momentum(),
                         .affine = o.affine(),
                         .tracks = o.track_running_stats(),
                         .bias = bias},
                        placement, grid),
        options(o) {}
  ChannelNormOf(const Options& o, const Grid& grid) : ChannelNormOf(o, LayerLayouts(), grid) {}

  const Options options;

 private:
  static constexpr bool is_instance = std::is_same_v<Options, InstanceNormOptions>;
};

ADJOIN_LAYERS_OF_SPACE(BatchNorm, ChannelNormOf);
ADJOIN_LAYERS_OF_SPACE(InstanceNorm, ChannelNormOf);

}  // namespace adjoin::nn
