#pragma once

#include <torch/nn/options/conv.h>

#include <string>
#include <vector>

#include "adjoin/nn/distributed/of_space.hpp"
#include "adjoin/nn/distributed/weighted.hpp"

namespace adjoin::nn {

ADJOIN_OPTIONS_OF_SPACE(Conv);
ADJOIN_OPTIONS_OF_SPACE(ConvTranspose);

/// A convolution of any number of dims, as its options describe it.
struct ConvGeometry {
  std::string name;  ///< "Conv2d"
  int64_t in_channels = 0, out_channels = 0, groups = 1;
  bool bias = true;               ///< if not, the bias that it takes is undefined
  std::vector<Window> windows;    ///< of the dims of space; all transposed or none of them
  std::vector<Edges> edges = {};  ///< of the dims of space; none: zeros

  bool is_transposed() const { return windows.front().transposed; }
  /// [out, in / groups, *kernel]; transposed: [in, out / groups, *kernel]
  std::vector<int64_t> weight_shape() const;
  /// "Conv2d(3, 8, kernel 5x5)"
  std::string to_string() const;
};

/// Throws: InvalidArgument for channels that groups do not divide, for `same` with a stride, and, where transposed, for a
///         padding mode other than zeros
template <size_t D>
ConvGeometry geometry_of(const torch::nn::ConvOptions<D>& options);
template <size_t D>
ConvGeometry geometry_of(const torch::nn::ConvTransposeOptions<D>& options);

/// The edges of a tensor with `dims` dims before those of space.
std::vector<Edges> edges_behind(const ConvGeometry& geometry, size_t dims);

/// A convolution, or a transposed one, over an input that is cut over space, channels or the batch, or all of them.
///
/// The weight stays where it is. The workers along the axes on which it is copied divide the batch and space: each fetches the
/// inputs that its outputs read, corners included, in one exchange, and convolves them alone. Along the axes that cut the
/// outputs x is copied; along those that cut the inputs the results are summands. A cut may go through a group: a worker then
/// reads all channels of each group of which it has a part, and calls the kernel once for each run of groups of which it has
/// the same number of channels.
///
/// Shape:  x [batch, in, *space] or [in, *space], weight as ConvGeometry says, bias [out] -> [batch, out, *space]
/// Kinds:  any -> as the placement says
/// Cost:   two moves each way, and the convolution; a transposed one also computes outputs beyond the ends of the worker's own
/// Source: Hewett and Grady, arXiv 2006.03108, section 4
class Convolution {
 public:
  /// Throws: InvalidArgument for a weight of another shape, one whose kernel is cut, or as check_piece
  Convolution(ConvGeometry geometry, const LayerLayouts& placement, const Grid& grid);

  const Layout& weight() const { return weight_; }  ///< the layouts of the tensors that it takes
  Layout bias() const;
  /// All workers of the world call it with their pieces, also those that hold nothing.
  /// Throws: InvalidArgument on all workers where x, the windows or a layout do not fit
  DistributedTensor operator()(const DistributedTensor& x, const at::Tensor& weight, const at::Tensor& bias);
  /// The margins that an input's memory may have, as Route::room. Called by all workers of the world.
  const std::vector<Pads>& room(const Layout& input) { return route_of(input).room(); }

 private:
  const Route& route_of(const Layout& input) {
    return routes_.of(input, [this](const Layout& layout) { return plan(layout); });
  }
  Route plan(const Layout& input) const;
  /// The layout of the channels that the weight's dim 0 (rows) or dim 1 (columns) counts; `kind` along the other dim's axes.
  Layout rows_side(const RowCuts& rows, std::vector<int64_t> shape, size_t dim, Kind kind) const;
  Layout columns_side(const RowCuts& rows, std::vector<int64_t> shape, size_t dim, Kind kind) const;

  ConvGeometry geometry_;
  Layout weight_;
  WorkDivision division_;
  LayoutRule output_;
  Routes routes_;
};

/// A Convolution that owns its weight and bias.
class ConvNdImpl : public ShardedModule {
 public:
  ConvNdImpl(const ConvGeometry& geometry, const LayerLayouts& placement, const Grid& grid);

  DistributedTensor forward(const DistributedTensor& x) { return convolution_(x, weight_, bias_); }
  const std::vector<Pads>& room(const Layout& input) { return convolution_.room(input); }

 private:
  Convolution convolution_;
  at::Tensor weight_, bias_;
};

/// ConvNd with the options of its twin in torch::nn.
template <class Options, size_t...>
class ConvImpl : public ConvNdImpl {
 public:
  /// Throws: InvalidArgument as geometry_of and Convolution
  ConvImpl(const Options& o, const LayerLayouts& placement, const Grid& grid)
      : ConvNdImpl(geometry_of(o), placement, grid), options(o) {}
  ConvImpl(const Options& o, const Grid& grid) : ConvImpl(o, LayerLayouts(), grid) {}

  const Options options;
};

ADJOIN_LAYERS_OF_SPACE(Conv, ConvImpl);
ADJOIN_LAYERS_OF_SPACE(ConvTranspose, ConvImpl);

}  // namespace adjoin::nn
