// Converts the options of torch::nn's convolutions.

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/conv.hpp"

namespace adjoin::nn {
namespace {

using ConvPaddingMode = torch::nn::detail::conv_padding_mode_t;

struct ModeOfPadding {
  Padding operator()(torch::enumtype::kZeros) const { return Padding::zeros; }
  Padding operator()(torch::enumtype::kReflect) const { return Padding::reflect; }
  Padding operator()(torch::enumtype::kReplicate) const { return Padding::replicate; }
  Padding operator()(torch::enumtype::kCircular) const { return Padding::circular; }
};

template <class Options>
ConvGeometry without_padding(const char* kind, size_t dims, const Options& options) {
  ConvGeometry geometry{
      .name = kind + std::to_string(dims) + "d",
      .in_channels = options.in_channels(),
      .out_channels = options.out_channels(),
      .groups = options.groups(),
      .bias = options.bias(),
      .windows = {},
      .edges = std::vector(dims, Edges(std::visit(ModeOfPadding(), ConvPaddingMode(options.padding_mode()))))};
  for (size_t d = 0; d < dims; ++d)
    geometry.windows.push_back({.kernel = (*options.kernel_size())[d],
                                .stride = (*options.stride())[d],
                                .dilation = (*options.dilation())[d]});
  for (const Window& window : geometry.windows)
    require(window.kernel >= 1 && window.stride >= 1 && window.dilation >= 1, [&] {
      return geometry.to_string() + ": expected a kernel, a stride and a dilation of at least 1, got " +
             std::to_string(window.kernel) + ", " + std::to_string(window.stride) + " and " +
             std::to_string(window.dilation);
    });
  const bool fits = geometry.groups >= 1 && geometry.in_channels >= 1 && geometry.out_channels >= 1 &&
                    geometry.in_channels % geometry.groups == 0 && geometry.out_channels % geometry.groups == 0;
  require(fits, [&] {
    return geometry.to_string() + ": expected channels in and out that the groups divide, got " +
           std::to_string(geometry.in_channels) + " and " + std::to_string(geometry.out_channels) + " in " +
           std::to_string(geometry.groups) + " groups";
  });
  return geometry;
}

/// Gives as many outputs as inputs; where the padding is odd, one more at the end.
void pad_to_same(ConvGeometry& geometry) {
  for (Window& window : geometry.windows) {
    require(window.stride == 1, [&] {
      return geometry.to_string() + ": expected a stride of 1 with padding `same`, got " +
             std::to_string(window.stride);
    });
    window.before = (window.extent() - 1) / 2;
    window.after = window.extent() - 1 - window.before;
  }
}

}  // namespace

std::vector<int64_t> ConvGeometry::weight_shape() const {
  std::vector<int64_t> shape = is_transposed() ? std::vector{in_channels, out_channels / groups}
                                               : std::vector{out_channels, in_channels / groups};
  for (const Window& window : windows) shape.push_back(window.kernel);
  return shape;
}

std::string ConvGeometry::to_string() const {
  std::string kernel;
  for (const Window& window : windows) {
    if (!kernel.empty()) kernel += "x";
    kernel += std::to_string(window.kernel);
  }
  return name + "(" + std::to_string(in_channels) + ", " + std::to_string(out_channels) + ", kernel " + kernel + ")";
}

template <size_t D>
ConvGeometry geometry_of(const torch::nn::ConvOptions<D>& options) {
  ConvGeometry geometry = without_padding("Conv", D, options);
  if (const auto* numbers = std::get_if<torch::ExpandingArray<D>>(&options.padding()))
    for (size_t d = 0; d < D; ++d) geometry.windows[d].before = geometry.windows[d].after = (**numbers)[d];
  else if (std::holds_alternative<torch::enumtype::kSame>(options.padding()))
    pad_to_same(geometry);
  return geometry;
}

template <size_t D>
ConvGeometry geometry_of(const torch::nn::ConvTransposeOptions<D>& options) {
  ConvGeometry geometry = without_padding("ConvTranspose", D, options);
  require(geometry.edges == std::vector<Edges>(D), [&] {
    return geometry.to_string() + ": expected the padding mode zeros, the only one of a transposed convolution";
  });
  for (size_t d = 0; d < D; ++d) {
    Window& window = geometry.windows[d];
    window.transposed = true;
    window.before = window.after = (*options.padding())[d];
    window.output_padding = (*options.output_padding())[d];
  }
  return geometry;
}

template ConvGeometry geometry_of(const torch::nn::ConvOptions<1>&);
template ConvGeometry geometry_of(const torch::nn::ConvOptions<2>&);
template ConvGeometry geometry_of(const torch::nn::ConvOptions<3>&);
template ConvGeometry geometry_of(const torch::nn::ConvTransposeOptions<1>&);
template ConvGeometry geometry_of(const torch::nn::ConvTransposeOptions<2>&);
template ConvGeometry geometry_of(const torch::nn::ConvTransposeOptions<3>&);

}  // namespace adjoin::nn
