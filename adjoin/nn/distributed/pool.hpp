#pragma once

#include <torch/nn/module.h>
#include <torch/nn/options/pooling.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/distributed/weightless.hpp"

namespace adjoin::nn {

using torch::nn::AvgPool1dOptions;
using torch::nn::AvgPool2dOptions;
using torch::nn::AvgPool3dOptions;
using torch::nn::MaxPool1dOptions;
using torch::nn::MaxPool2dOptions;
using torch::nn::MaxPool3dOptions;

/// A pooling of any number of dims: what its options come to.
struct PoolGeometry {
  std::string name;             ///< "MaxPool2d"
  std::vector<Window> windows;  ///< of the dims of space
  bool is_max = true;
  bool count_include_pad = true;                 ///< of an average
  std::optional<int64_t> divisor_override = {};  ///< of an average
};

/// Throws: InvalidArgument for a padding of more than half of the kernel, which LibTorch does not take either, or a
///         divisor of 0
template <size_t D>
PoolGeometry geometry_of(const torch::nn::MaxPoolOptions<D>& options);
template <size_t D>
PoolGeometry geometry_of(const torch::nn::AvgPoolOptions<D>& options);

/// A maximum or an average over windows of an input that is cut in any way.
///
/// Each worker fetches what its own windows read, padded with -infinity for a maximum, and pools without padding; of an
/// average it takes the sums, and divides each by what its window counts in the whole tensor.
/// Shape:  [batch, channels, *space] or [channels, *space] -> the same with other space
/// Kinds:  any -> as `output` says; unless given as the input lies, in balanced parts of space where its size changes
/// Cost:   a halo each way, and the pooling
class PoolNdImpl : public torch::nn::Module {
 public:
  /// Called by all workers of the world, those that hold nothing too.
  /// Throws: InvalidArgument on all of them where x, the windows or a layout do not fit
  DistributedTensor forward(const DistributedTensor& x);

 protected:
  PoolNdImpl(PoolGeometry geometry, const Grid& grid, LayoutRule output);

 private:
  Route plan(const Layout& input) const;
  Route::Kernel kernel(const std::vector<int64_t>& inputs, const std::vector<Range>& outputs) const;

  PoolGeometry geometry_;
  LayoutRule output_;
  Routes routes_;
};

/// PoolNd with the options of its twin in torch::nn.
template <class Options>
class PoolImpl : public PoolNdImpl {
 public:
  /// Throws: InvalidArgument as geometry_of
  PoolImpl(const Options& o, const Grid& grid, LayoutRule output = {})
      : PoolNdImpl(geometry_of(o), grid, std::move(output)), options(o) {}

  const Options options;
};

using MaxPool1dImpl = PoolImpl<MaxPool1dOptions>;
using MaxPool2dImpl = PoolImpl<MaxPool2dOptions>;
using MaxPool3dImpl = PoolImpl<MaxPool3dOptions>;
using AvgPool1dImpl = PoolImpl<AvgPool1dOptions>;
using AvgPool2dImpl = PoolImpl<AvgPool2dOptions>;
using AvgPool3dImpl = PoolImpl<AvgPool3dOptions>;
TORCH_MODULE(MaxPool1d);
TORCH_MODULE(MaxPool2d);
TORCH_MODULE(MaxPool3d);
TORCH_MODULE(AvgPool1d);
TORCH_MODULE(AvgPool2d);
TORCH_MODULE(AvgPool3d);

}  // namespace adjoin::nn
