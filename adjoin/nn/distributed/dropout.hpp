#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/dropout.h>
#include <torch/nn/pimpl.h>

#include <string>

#include "adjoin/movement/distributed_tensor.hpp"

namespace adjoin::nn {

using torch::nn::DropoutOptions;

/// Sets elements to zero with probability p (to the nearest 1/65536) and scales the others by 1/(1-p). Every layout drops the
/// same ones. With `of_channels` whole channels are dropped: all of [sample, channel, *] or nothing.
///
/// Whether an element is dropped depends on seed, layer name, step and its place in the global tensor alone; `nn::dropout` has
/// the same masks. Nothing moves. A partial tensor stays partial.
/// Shape:  [samples, *] or [samples] -> the same; of channels [samples, channels, *]
/// Kinds:  any -> the same
/// Cost:   one Philox block for eight elements, each way; nothing after `eval`, or unless x.step->training
template <bool of_channels>
class DropoutOf : public torch::nn::Module {
 public:
  /// `name`: the layer's full name, by which its masks differ from those of other layers. `inplace` has no effect.
  /// Throws: InvalidArgument for p outside [0, 1]
  DropoutOf(const DropoutOptions& options, std::string name);

  /// `x.step->first_sample` is the place of x's first sample in the batch, where x is only a part of the batch.
  /// Throws: InvalidArgument for a covering split, for too few dims, and, unless `eval` was called, for an x without a step
  DistributedTensor forward(const DistributedTensor& x);

  const DropoutOptions options;

 private:
  std::string name_;
};

using DropoutImpl = DropoutOf<false>;
using ChannelDropoutImpl = DropoutOf<true>;
TORCH_MODULE(Dropout);
TORCH_MODULE(ChannelDropout);
using Dropout2d = ChannelDropout;
using Dropout3d = ChannelDropout;

}  // namespace adjoin::nn
