#pragma once

#include <torch/nn/options/pooling.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/distributed/weightless.hpp"

namespace adjoin::nn {

using torch::nn::AdaptiveAvgPool1dOptions;
using torch::nn::AdaptiveAvgPool2dOptions;
using torch::nn::AdaptiveAvgPool3dOptions;
using torch::nn::AdaptiveMaxPool1dOptions;
using torch::nn::AdaptiveMaxPool2dOptions;
using torch::nn::AdaptiveMaxPool3dOptions;
using torch::nn::AvgPool1dOptions;
using torch::nn::AvgPool2dOptions;
using torch::nn::AvgPool3dOptions;
using torch::nn::MaxPool1dOptions;
using torch::nn::MaxPool2dOptions;
using torch::nn::MaxPool3dOptions;

/// A pooling of any number of dims, as its options describe it.
struct PoolGeometry {
  std::string name;  ///< "MaxPool2d"
  bool is_max = true;
  std::vector<Window> windows = {};              ///< one for each dim of space, unless adaptive
  bool count_include_pad = true;                 ///< for an average
  std::optional<int64_t> divisor_override = {};  ///< for an average
  /// Adaptive: how many outputs each dim of space has; none: as many as inputs.
  std::vector<std::optional<int64_t>> outputs = {};
};

/// Throws: InvalidArgument for a padding of more than half the kernel, which LibTorch does not accept either, or a divisor of 0
template <size_t D>
PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<D>& options);
template <size_t D>
PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<D>& options);

/// Throws: InvalidArgument where a number of outputs is below 1
PoolGeometry adaptive_pool(bool is_max, std::vector<std::optional<int64_t>> outputs);
template <class Sizes>
PoolGeometry geometry_of(const torch::nn::AdaptiveMaxPoolOptions<Sizes>& options) {
  return adaptive_pool(true, {options.output_size()->begin(), options.output_size()->end()});
}
template <class Sizes>
PoolGeometry geometry_of(const torch::nn::AdaptiveAvgPoolOptions<Sizes>& options) {
  return adaptive_pool(false, {options.output_size()->begin(), options.output_size()->end()});
}

/// How a pooling is done, for any layout of its input. Throws: InvalidArgument, from the returned function, where the input
/// does not fit
std::function<Route(const Layout& input)> plan_of(PoolGeometry geometry, const Grid& grid, LayoutRule output);

/// A maximum or an average over windows. The input may be cut in any way.
///
/// Each worker fetches what its own windows read (padded with -infinity for a maximum) and pools without padding. For an
/// average it computes sums, and divides each by the count of its window in the whole tensor. Adaptive poolings have one window
/// for each wanted output: output y of m reads the inputs [floor(y n/m), ceil((y+1) n/m)) of n.
/// Shape:  [batch, channels, *space] or [channels, *space] -> the same with other space
/// Kinds:  any -> as `output` says; by default the input's layout, in balanced parts of space where its size changes
/// Cost:   a halo each way, and the pooling; adaptive, where m does not divide n, a kernel call for each output of space
template <class Options>
class PoolImpl : public WeightlessImpl {
 public:
  /// Throws: InvalidArgument as geometry_of
  PoolImpl(const Options& o, const Grid& grid, LayoutRule output = {})
      : WeightlessImpl(geometry_of(o).name, grid, plan_of(geometry_of(o), grid, std::move(output))), options(o) {}

  const Options options;
};

using MaxPool1dImpl = PoolImpl<MaxPool1dOptions>;
using MaxPool2dImpl = PoolImpl<MaxPool2dOptions>;
using MaxPool3dImpl = PoolImpl<MaxPool3dOptions>;
using AvgPool1dImpl = PoolImpl<AvgPool1dOptions>;
using AvgPool2dImpl = PoolImpl<AvgPool2dOptions>;
using AvgPool3dImpl = PoolImpl<AvgPool3dOptions>;
using AdaptiveMaxPool1dImpl = PoolImpl<AdaptiveMaxPool1dOptions>;
using AdaptiveMaxPool2dImpl = PoolImpl<AdaptiveMaxPool2dOptions>;
using AdaptiveMaxPool3dImpl = PoolImpl<AdaptiveMaxPool3dOptions>;
using AdaptiveAvgPool1dImpl = PoolImpl<AdaptiveAvgPool1dOptions>;
using AdaptiveAvgPool2dImpl = PoolImpl<AdaptiveAvgPool2dOptions>;
using AdaptiveAvgPool3dImpl = PoolImpl<AdaptiveAvgPool3dOptions>;
TORCH_MODULE(MaxPool1d);
TORCH_MODULE(MaxPool2d);
TORCH_MODULE(MaxPool3d);
TORCH_MODULE(AvgPool1d);
TORCH_MODULE(AvgPool2d);
TORCH_MODULE(AvgPool3d);
TORCH_MODULE(AdaptiveMaxPool1d);
TORCH_MODULE(AdaptiveMaxPool2d);
TORCH_MODULE(AdaptiveMaxPool3d);
TORCH_MODULE(AdaptiveAvgPool1d);
TORCH_MODULE(AdaptiveAvgPool2d);
TORCH_MODULE(AdaptiveAvgPool3d);

}  // namespace adjoin::nn
