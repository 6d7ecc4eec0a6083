#pragma once

#include <torch/nn/module.h>
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

/// An adaptive pooling of any number of dims.
struct AdaptivePoolGeometry {
  std::string name;
  std::vector<std::optional<int64_t>> outputs;  ///< of each dim of space; none: as many as inputs
  bool is_max = true;
};

/// A maximum or an average over as many windows as the output shall have: output y of m reads the inputs
/// [floor(y n/m), ceil((y+1) n/m)) of n.
///
/// Shape:  [batch, channels, *space] or [channels, *space] -> the same with other space
/// Kinds:  any -> as `output` says; unless given as the input lies, in balanced parts of space where its size changes
/// Cost:   the move of what is read each way; LibTorch's pooling where m divides n, else a kernel for each output of space
class AdaptivePoolNdImpl : public torch::nn::Module {
 public:
  /// Called by all workers of the world, those that hold nothing too.
  /// Throws: InvalidArgument on all of them where x, the sizes or a layout do not fit
  DistributedTensor forward(const DistributedTensor& x);

 protected:
  AdaptivePoolNdImpl(AdaptivePoolGeometry geometry, const Grid& grid, LayoutRule output);

 private:
  Route plan(const Layout& input) const;

  AdaptivePoolGeometry geometry_;
  LayoutRule output_;
  Routes routes_;
};

/// What the options of any of them say of the outputs.
template <class Options>
std::vector<std::optional<int64_t>> outputs_of_options(const Options& options) {
  const auto& sizes = *options.output_size();
  return {sizes.begin(), sizes.end()};
}

/// AdaptivePoolNd with the options of its twin in torch::nn.
template <class Options, bool is_max>
class AdaptivePoolImpl : public AdaptivePoolNdImpl {
 public:
  AdaptivePoolImpl(const Options& o, const Grid& grid, LayoutRule output = {})
      : AdaptivePoolNdImpl(
            {(is_max ? "AdaptiveMaxPool" : "AdaptiveAvgPool") + std::to_string(o.output_size()->size()) + "d",
             outputs_of_options(o), is_max},
            grid, std::move(output)),
        options(o) {}

  const Options options;
};

using AdaptiveMaxPool1dImpl = AdaptivePoolImpl<AdaptiveMaxPool1dOptions, true>;
using AdaptiveMaxPool2dImpl = AdaptivePoolImpl<AdaptiveMaxPool2dOptions, true>;
using AdaptiveMaxPool3dImpl = AdaptivePoolImpl<AdaptiveMaxPool3dOptions, true>;
using AdaptiveAvgPool1dImpl = AdaptivePoolImpl<AdaptiveAvgPool1dOptions, false>;
using AdaptiveAvgPool2dImpl = AdaptivePoolImpl<AdaptiveAvgPool2dOptions, false>;
using AdaptiveAvgPool3dImpl = AdaptivePoolImpl<AdaptiveAvgPool3dOptions, false>;
TORCH_MODULE(AdaptiveMaxPool1d);
TORCH_MODULE(AdaptiveMaxPool2d);
TORCH_MODULE(AdaptiveMaxPool3d);
TORCH_MODULE(AdaptiveAvgPool1d);
TORCH_MODULE(AdaptiveAvgPool2d);
TORCH_MODULE(AdaptiveAvgPool3d);

}  // namespace adjoin::nn
