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

/// Upsampling (or down) by nearest, linear, bilinear, trilinear or bicubic interpolation, to a size or by a factor. The
/// options of torch::nn::Upsample know no nearest-exact; those of its function interpolate do, and are taken too.
///
/// Interpolation is a map along one dim after another, so each worker makes its outputs of the inputs that they are made
/// of. Which input is the nearest LibTorch says itself, as it computes that in float32; of a picture whose size a factor
/// keeps or doubles the factor does not count, as in LibTorch. The gradient is that of this result also where a factor like
/// 1.2 leaves the size as it is, or doubles it, where LibTorch's own is not.
/// Shape:  [batch, channels, *space] -> the same with other space
/// Kinds:  any -> as `output` says; unless given as the input lies, in balanced parts of space where its size changes
/// Cost:   the move of what is read each way, and for each dim of space as many products of its output as there are taps
class UpsampleImpl : public WeightlessImpl {
 public:
  /// Throws: InvalidArgument unless either a size or a scale factor is given, or where align_corners does not go with
  ///         the mode
  UpsampleImpl(const UpsampleOptions& options, const Grid& grid, LayoutRule output = {});
  /// Throws: InvalidArgument also for area, antialias and a scale factor that is recomputed
  UpsampleImpl(const InterpolateFuncOptions& options, const Grid& grid, LayoutRule output = {});

  const InterpolateFuncOptions options;
};
TORCH_MODULE(Upsample);

}  // namespace adjoin::nn
