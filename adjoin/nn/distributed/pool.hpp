#pragma once

#include <torch/nn/options/pooling.h>

#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/distributed/of_space.hpp"
#include "adjoin/nn/distributed/weightless.hpp"

namespace adjoin::nn {

ADJOIN_OPTIONS_OF_SPACE(AdaptiveAvgPool);
ADJOIN_OPTIONS_OF_SPACE(AdaptiveMaxPool);
ADJOIN_OPTIONS_OF_SPACE(AvgPool);
ADJOIN_OPTIONS_OF_SPACE(MaxPool);

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
template <class Options, size_t...>
class PoolImpl : public WeightlessImpl {
 public:
  /// Throws: InvalidArgument as geometry_of
  PoolImpl(const Options& o, const Grid& grid, LayoutRule output = {})
      : WeightlessImpl(geometry_of(o).name, grid, plan_of(geometry_of(o), grid, std::move(output))), options(o) {}

  const Options options;
};

ADJOIN_LAYERS_OF_SPACE(MaxPool, PoolImpl);
ADJOIN_LAYERS_OF_SPACE(AvgPool, PoolImpl);
ADJOIN_LAYERS_OF_SPACE(AdaptiveMaxPool, PoolImpl);
ADJOIN_LAYERS_OF_SPACE(AdaptiveAvgPool, PoolImpl);

}  // namespace adjoin::nn
