#include "adjoin/nn/distributed/conv.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/conv_kernel.hpp"
#include "adjoin/nn/linear.hpp"

namespace adjoin::nn {
namespace {

/// The weight's dims 0 and 1 are outputs and inputs; in a transposed convolution the other way round.
WorkDivision division_of_conv(const ConvGeometry& geometry, const Layout& weight) {
  return geometry.is_transposed() ? division_of(geometry.to_string(), weight, /*out_dim=*/1, /*in_dim=*/0)
                                  : division_of(geometry.to_string(), weight, /*out_dim=*/0, /*in_dim=*/1);
}

int64_t rows_in_group(const ConvGeometry& geometry) {
  return geometry.weight_shape()[0] / geometry.groups;
}

/// For each run, whether its group is in no earlier run and in no earlier part.
std::vector<bool> first_runs(const Split& rows, int part, int64_t rows_in_group) {
  std::set<int64_t> seen;
  for (int earlier = 0; earlier < part; ++earlier)
    for (const GroupRun& run : runs_of(rows, earlier, rows_in_group)) seen.insert(run.group);
  std::vector<bool> first;
  for (const GroupRun& run : runs_of(rows, part, rows_in_group)) first.push_back(seen.insert(run.group).second);
  return first;
}

/// Whether LibTorch's own kernel computes a convolution of [batch, channels, *space] in three dims of space, as its use_mkldnn says for
/// float32. It asks of each number that it copies whether it is padding: with 16 channels of 16^3 cells on one core, forward and
/// backward take 11.7 ms, and 7.0 where the zeros are in the input (24^3: 35.5 and 27.0). oneDNN does not mind: 54.8 and 79.7 of 48^3.
bool asks_for_padding(const std::vector<int64_t>& shape, size_t space) {
  constexpr int64_t kMost = 20480;
  return space == 3 && shape.size() == 5 && shape[0] == 1 && shape[1] * shape[2] * shape[3] <= kMost;
}

/// Removes from the plan the number of padding zeros that both ends of a worker's inputs have in common: its kernel adds these
/// without a copy. Where some dim's edges have values, all padding stays: corners depend on the order of the dims.
std::vector<int64_t> take_padding(HaloPlan& halo, size_t first_dim, const std::vector<int>& parts,
                                  std::vector<int64_t> shape) {
  bool stays = std::ranges::any_of(halo.halos, [](const Halo& of_dim) { return of_dim.edges.has_values(); });
  for (size_t dim = first_dim; dim < parts.size(); ++dim) {
    const Pads& pads = halo.halos[dim].pads[static_cast<size_t>(parts[dim])];
    shape[dim] += pads.left + pads.right;
  }
  stays |= asks_for_padding(shape, parts.size() - first_dim);
  if (stays) return std::vector<int64_t>(parts.size() - first_dim, 0);
  std::vector<int64_t> padding;
  for (size_t dim = first_dim; dim < parts.size(); ++dim) {
    Pads& pads = halo.halos[dim].pads[static_cast<size_t>(parts[dim])];
    padding.push_back(std::min(pads.left, pads.right));
    pads = {pads.left - padding.back(), pads.right - padding.back()};
  }
  return padding;
}

}  // namespace

std::vector<Edges> edges_behind(const ConvGeometry& geometry, size_t dims) {
  std::vector<Edges> edges(dims);
  edges.insert(edges.end(), geometry.edges.begin(), geometry.edges.end());
  return edges;
}

Convolution::Convolution(ConvGeometry geometry, const LayerLayouts& placement, const Grid& grid)
    : geometry_(std::move(geometry)),
      weight_(weight_layout(geometry_.to_string(), "a weight of shape ", placement,
                            layout_copied_on(grid.shape(), geometry_.weight_shape()))),
      division_(division_of_conv(geometry_, weight_)),
      output_(placement.output),
      routes_(geometry_.to_string(), grid) {}

Layout Convolution::bias() const {
  if (!geometry_.is_transposed()) return bias_layout(weight_, division_, weight_.split(0));
  std::vector<std::string> axes = division_.in;
  axes.insert(axes.end(), division_.out.begin(), division_.out.end());
  const Split split = bias_of_columns(weight_.split(0), weight_.split(1), rows_in_group(geometry_), geometry_.groups);
  return Layout(division_.grid, {geometry_.out_channels}, {{split, axes}}, weight_.kinds());
}

DistributedTensor Convolution::operator()(const DistributedTensor& x, const at::Tensor& weight,
                                          const at::Tensor& bias) {
  routes_.check_type(x, weight);
  return route_of(x.layout)(x, {as_in_product(weight), as_in_product(bias)});
}

Route Convolution::plan(const Layout& input) const {
  const auto dims = static_cast<size_t>(input.dims()), space = geometry_.windows.size();
  require((dims == space + 1 || dims == space + 2) && input.shape()[dims - space - 1] == geometry_.in_channels, [&] {
    return "expected [batch, " + std::to_string(geometry_.in_channels) + ", *space] with " + std::to_string(space) +
           " dims of space, or the same without the batch";
  });
  const size_t channels = dims - space - 1;
  std::vector<Window> windows(channels + 1);
  windows.insert(windows.end(), geometry_.windows.begin(), geometry_.windows.end());
  std::vector<RowDim> row_dims;
  std::vector<int64_t> shape;
  for (size_t dim = 0; dim < dims; ++dim) {
    if (dim != channels) row_dims.push_back({static_cast<int64_t>(dim), windows[dim]});
    shape.push_back(outputs_of(windows[dim], input.shape()[dim]));
  }
  shape[channels] = geometry_.out_channels;
  std::optional<Layout> output;
  if (output_) output = output_(shape);

  const bool transposed = geometry_.is_transposed();
  const RowCuts rows = cut_rows(division_, row_dims, input, output);
  const Layout made =
      transposed ? columns_side(rows, shape, channels, Kind::partial) : rows_side(rows, shape, channels, Kind::partial);
  shape[channels] = geometry_.in_channels;
  const Layout read =
      transposed ? rows_side(rows, shape, channels, Kind::copied) : columns_side(rows, shape, channels, Kind::copied);
  HaloPlan halo = plan_halo(input.shape(), read, windows, edges_behind(geometry_, channels + 1));

  const int rank = routes_.grid().world().rank();
  ConvKernel kernel;
  kernel.transposed = transposed;
  kernel.made = made.shape_on(rank);
  for (const Window& window : geometry_.windows) {
    kernel.stride.push_back(window.stride);
    kernel.dilation.push_back(window.dilation);
  }
  kernel.padding.assign(space, 0);
  if (const auto cell = made.grid().cell_of(rank)) {
    const int part = weight_.parts_of(*cell)[0];
    kernel.runs = runs_of(weight_.split(0), part, rows_in_group(geometry_));
    const std::vector<int> parts = read.parts_of(*cell);
    if (!transposed) {
      kernel.padding = take_padding(halo, channels + 1, parts, halo.fetched.shape_on(rank));
    } else {
      kernel.owns_bias = first_runs(weight_.split(0), part, rows_in_group(geometry_));
      for (size_t dim = channels + 1; dim < dims; ++dim)
        kernel.pads.push_back(halo.halos[dim].pads[static_cast<size_t>(parts[dim])]);
    }
  }
  // Not all workers add the bias, or not all in LibTorch's convolution, whose gradients depend on each other's tensors.
  const bool some_differ = transposed ? routes_.grid().world().size() > 1 : weight_.split(1).parts() > 1;
  const bool differ = geometry_.bias && some_differ;
  return Route(input, {std::move(halo), made, output ? *output : summed(made), kernel, /*fill=*/0, differ},
               routes_.grid());
}

Layout Convolution::rows_side(const RowCuts& rows, std::vector<int64_t> shape, size_t dim, Kind kind) const {
  const auto& [split, axes] = weight_.cuts()[0];
  return work_layout(division_, rows, shape, {split.along(static_cast<int64_t>(dim)), axes}, weight_.cuts()[1].axes,
                     kind);
}

Layout Convolution::columns_side(const RowCuts& rows, std::vector<int64_t> shape, size_t dim, Kind kind) const {
  const Layout::Cut &of_rows = weight_.cuts()[0], &of_columns = weight_.cuts()[1];
  if (geometry_.groups == 1)
    return work_layout(division_, rows, shape, {of_columns.split.along(static_cast<int64_t>(dim)), of_columns.axes},
                       of_rows.axes, kind);
  std::vector<std::string> axes = of_rows.axes;
  axes.insert(axes.end(), of_columns.axes.begin(), of_columns.axes.end());
  const Split split = channels_of_columns(of_rows.split, of_columns.split, rows_in_group(geometry_), geometry_.groups,
                                          static_cast<int64_t>(dim));
  return work_layout(division_, rows, shape, {split, axes}, {}, kind);
}

ConvNdImpl::ConvNdImpl(const ConvGeometry& geometry, const LayerLayouts& placement, const Grid& grid)
    : convolution_(geometry, placement, grid) {
  const std::vector<int64_t>& shape = convolution_.weight().shape();
  double fan_in = 1;  // as torch::nn counts it, also where transposed
  for (size_t dim = 1; dim < shape.size(); ++dim) fan_in *= static_cast<double>(shape[dim]);
  register_piece(weight_, "weight",
                 {convolution_.weight(), grid, Initial::normal(1 / std::sqrt(3 * fan_in)), {shape[0]}},
                 placement.tensor);
  if (geometry.bias) register_piece(bias_, "bias", {convolution_.bias(), grid, Initial::zeros()}, placement.tensor);
}

}  // namespace adjoin::nn
