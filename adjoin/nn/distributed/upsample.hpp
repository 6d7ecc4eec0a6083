#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/upsampling.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

#include "adjoin/nn/distributed/interpolation.hpp"
#include "adjoin/nn/distributed/weightless.hpp"

namespace adjoin::nn {

using torch::nn::UpsampleOptions;
using torch::nn::functional::InterpolateFuncOptions;

/// Upsampling (or downsampling) by nearest, nearest-exact, linear, bilinear, trilinear or bicubic interpolation, to a size or
/// by a factor. torch::nn::Upsample's options lack nearest-exact; those of its function `interpolate` have it, and are accepted
/// too.
///
/// Interpolation is a map along one dim after another, so each worker makes its outputs from the inputs that they need.
/// LibTorch itself is asked which input is the nearest, as it computes that in float32. As in LibTorch, the factor itself is
/// ignored for a picture whose size it keeps or doubles. The gradient is the gradient of this result also where a factor such
/// as 1.2 leaves the size as it is, or doubles it; LibTorch's own gradient is not.
/// Shape:  [batch, channels, *space] -> the same with other space
/// Kinds:  any -> as `output` says; by default the input's layout, in balanced parts of space where its size changes
/// Cost:   the move of what is read each way; for each dim of space, the number of its outputs times the number of taps, in
///         products
class UpsampleImpl : public WeightlessImpl {
 public:
  /// Throws: InvalidArgument unless either a size or a scale factor is given, or where align_corners does not fit the mode
  UpsampleImpl(const UpsampleOptions& options, const Grid& grid, LayoutRule output = {});
  /// Throws: InvalidArgument also for area, for antialias, and where the scale factor is to be recomputed
  UpsampleImpl(const InterpolateFuncOptions& options, const Grid& grid, LayoutRule output = {});

  const InterpolateFuncOptions options;
};
TORCH_MODULE(Upsample);

}  // namespace adjoin::nn
