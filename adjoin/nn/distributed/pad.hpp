#pragma once

#include <torch/nn/options/padding.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "adjoin/nn/distributed/of_space.hpp"
#include "adjoin/nn/distributed/weightless.hpp"
#include "adjoin/partition/window.hpp"

namespace adjoin::nn {

ADJOIN_OPTIONS_OF_SPACE(ConstantPad);
ADJOIN_OPTIONS_OF_SPACE(ReflectionPad);
ADJOIN_OPTIONS_OF_SPACE(ReplicationPad);
ADJOIN_OPTIONS_OF_SPACE(ZeroPad);

/// Options of CircularPad, which torch::nn has only in Python: the left and right padding of each dim, the last dim first.
template <size_t D>
struct CircularPadOptions {
  /* implicit */ CircularPadOptions(torch::ExpandingArray<D * 2> padding) : padding_(padding) {}
  TORCH_ARG(torch::ExpandingArray<D * 2>, padding);
};

/// A padding of space: the options of all paddings in one form.
struct PadGeometry {
  std::string name;
  std::vector<Pads> pads;  ///< of each dim of space, the first dim first; negative: cropped
  Padding mode = Padding::zeros;
  double value = 0;  ///< of the padding, where `mode` is zeros
};

template <size_t D>
std::vector<Pads> pads_of(const torch::ExpandingArray<D * 2>& last_first) {
  std::vector<Pads> pads;
  for (size_t d = D; d-- > 0;) pads.push_back({(*last_first)[2 * d], (*last_first)[2 * d + 1]});
  return pads;
}
template <size_t D>
PadGeometry geometry_of(const torch::nn::ZeroPadOptions<D>& options) {
  return {.name = "ZeroPad" + std::to_string(D) + "d", .pads = pads_of<D>(options.padding())};
}
template <size_t D>
PadGeometry geometry_of(const torch::nn::ConstantPadOptions<D>& options) {
  return {
      .name = "ConstantPad" + std::to_string(D) + "d", .pads = pads_of<D>(options.padding()), .value = options.value()};
}
template <size_t D>
PadGeometry geometry_of(const torch::nn::ReflectionPadOptions<D>& options) {
  return {.name = "ReflectionPad" + std::to_string(D) + "d",
          .pads = pads_of<D>(options.padding()),
          .mode = Padding::reflect};
}
template <size_t D>
PadGeometry geometry_of(const torch::nn::ReplicationPadOptions<D>& options) {
  return {.name = "ReplicationPad" + std::to_string(D) + "d",
          .pads = pads_of<D>(options.padding()),
          .mode = Padding::replicate};
}
template <size_t D>
PadGeometry geometry_of(const CircularPadOptions<D>& options) {
  return {.name = "CircularPad" + std::to_string(D) + "d",
          .pads = pads_of<D>(options.padding()),
          .mode = Padding::circular};
}

/// How a padding is done, for any layout of its input. Throws: InvalidArgument, from the returned function, where the input does
/// not fit
std::function<Route(const Layout& input)> plan_of(PadGeometry geometry, const Grid& grid, LayoutRule output);

/// Pads the dims of space. ZeroPad and ConstantPad crop where a number is negative. The input may be cut in any way.
///
/// Each worker fetches the inputs of its own outputs, and adds the padding that it holds.
/// Shape:  [batch, channels, *space] or [channels, *space] -> the same with other space
/// Kinds:  any -> as `output` says; by default the input's layout, in balanced parts of space where its size changes
/// Cost:   a halo each way
template <class Options, size_t...>
class PadOf : public WeightlessImpl {
 public:
  PadOf(const Options& o, const Grid& grid, LayoutRule output = {})
      : WeightlessImpl(geometry_of(o).name, grid, plan_of(geometry_of(o), grid, std::move(output))), options(o) {}

  const Options options;
};

using CircularPad1dOptions = CircularPadOptions<1>;
using CircularPad2dOptions = CircularPadOptions<2>;
using CircularPad3dOptions = CircularPadOptions<3>;
ADJOIN_LAYERS_OF_SPACE(ZeroPad, PadOf);
ADJOIN_LAYERS_OF_SPACE(ConstantPad, PadOf);
ADJOIN_LAYERS_OF_SPACE(ReflectionPad, PadOf);
ADJOIN_LAYERS_OF_SPACE(ReplicationPad, PadOf);
ADJOIN_LAYERS_OF_SPACE(CircularPad, PadOf);

}  // namespace adjoin::nn
