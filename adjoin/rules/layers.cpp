#include <algorithm>
#include <memory>
#include <numeric>

#include "adjoin/nn/distributed/conv.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/nn/distributed/pad.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "adjoin/nn/distributed/upsample.hpp"
#include "adjoin/rules/operation.hpp"

// Operations over space. Where only samples or channels are cut, LibTorch's operation runs on the pieces; where space is cut, the plan and
// the kernel of a layer of nn/distributed.

namespace adjoin::rules {
namespace {

/// The sizes of the result of windows over the last dims, with `channels` in the dim before; none keeps them.
std::vector<int64_t> windowed(std::vector<int64_t> shape, const std::vector<Window>& windows,
                              std::optional<int64_t> channels = {}) {
  const size_t first = shape.size() - windows.size();
  for (size_t dim = 0; dim < windows.size(); ++dim) shape[first + dim] = outputs_of(windows[dim], shape[first + dim]);
  if (channels) shape[first - 1] = *channels;
  return shape;
}
std::vector<int64_t> resized(std::vector<int64_t> shape, const std::vector<int64_t>& sizes) {
  std::ranges::copy(sizes, shape.end() - std::ssize(sizes));
  return shape;
}

/// Labels of [samples, channels, *space], or of fewer dims before: `behind` dims of space, which are whole.
Labels by_sample(const Operation& operation, size_t behind, const std::vector<int64_t>& shape) {
  const Layout& x = operation.operands[0].layout;
  const auto dims = static_cast<size_t>(x.dims());
  constexpr int kNew = 1000;
  Labels labels{.operands = {numbered(x.dims())}, .results = {numbered(x.dims())}};
  for (size_t dim = dims - behind; dim < dims; ++dim) {
    labels.whole.insert(static_cast<int>(dim));
    labels.results[0][dim] = static_cast<int>(kNew + dim);
    labels.sizes[static_cast<int>(kNew + dim)] = shape[dim];
  }
  return labels;
}

/// Where an operation over space leaves its result: as x lies, in balanced parts of dims whose size changes.
Layout beside(const Layout& x, const std::vector<int64_t>& shape) {
  std::vector<Layout::Cut> cuts;
  for (Layout::Cut cut : x.cuts()) {
    if (cut.axes.empty()) continue;
    const auto dim = static_cast<size_t>(cut.split.dim());
    if (x.shape()[dim] != shape[dim]) cut.split = Split::balanced(shape[dim], cut.split.parts(), cut.split.dim());
    cuts.push_back(std::move(cut));
  }
  return Layout(x.grid(), shape, std::move(cuts), x.kinds());
}

/// A tensor of a layer that is used where x lies: copied along the axes that cut x and not it.
Layout used_by(const Layout& x, Layout weight) {
  for (const GridShape::Axis& axis : weight.grid().axes())
    if (weight.kind(axis.name) != Kind::split)
      weight = weight.with_kind(axis.name, x.kind(axis.name) == Kind::split ? Kind::copied : Kind::replicated);
  return weight;
}

/// What an argument says of each dim of space: one number for all of them, or one each.
std::vector<int64_t> for_each_dim(std::vector<int64_t> numbers, size_t dims,
                                  const std::vector<int64_t>& otherwise = {}) {
  if (numbers.empty()) numbers = otherwise;
  numbers.resize(dims, numbers.empty() ? 1 : numbers[0]);
  return numbers;
}

// ---- convolutions

/// The windows of a convolution's arguments: stride, padding and dilation of each dim of space, from `argument` on.
nn::ConvGeometry geometry_of(const Operation& operation, bool transposed) {
  const std::vector<int64_t>& weight = operation.shape(1);
  const size_t space = weight.size() - 2;
  const auto numbers = [&](size_t argument) { return for_each_dim(operation.integers(argument), space, {0}); };
  const std::vector<int64_t> stride = numbers(3), padding = numbers(4), dilation = numbers(transposed ? 7 : 5);
  nn::ConvGeometry geometry;
  geometry.name = operation.name().substr(6);  // without "aten::"
  geometry.groups = operation.integer(6);
  geometry.in_channels = transposed ? weight[0] : weight[1] * geometry.groups;
  geometry.out_channels = transposed ? weight[1] * geometry.groups : weight[0];
  geometry.bias = operation.operand(2) != nullptr;
  for (size_t dim = 0; dim < space; ++dim)
    geometry.windows.push_back({.kernel = weight[dim + 2],
                                .stride = stride[dim],
                                .dilation = dilation[dim],
                                .before = padding[dim],
                                .after = padding[dim],
                                .transposed = transposed,
                                .output_padding = transposed ? numbers(5)[dim] : 0});
  return geometry;
}

/// The products that a worker computes: for each element of the result, or of x where it is transposed, those of a row of the weight.
double products(const Way& way, bool transposed) {
  return largest_piece(transposed ? way.reads[0] : way.makes[0]) * largest_piece(way.reads[1], /*first_dim=*/1);
}

/// The halo of x, and the sum where the weight's inputs are cut.
std::vector<std::pair<Layout, Layout>> moves_of(const nn::ConvGeometry& geometry, const Layout& x, const Layout& made,
                                                const Layout& weight, size_t channels) {
  std::vector<Window> windows(channels + 1);
  windows.insert(windows.end(), geometry.windows.begin(), geometry.windows.end());
  std::vector<int64_t> shape = made.shape(), from(shape.size());
  shape[channels] = geometry.in_channels;
  std::iota(from.begin(), from.end(), 0);
  from[channels] = -1;
  Layout outputs = reshaped(made, shape, from), summands = made;
  const std::vector<std::string>&of_rows = weight.cuts()[0].axes, &of_columns = weight.cuts()[1].axes;
  for (const std::string& axis : geometry.is_transposed() ? of_columns : of_rows)
    outputs = outputs.with_kind(axis, Kind::copied);
  for (const std::string& axis : geometry.is_transposed() ? of_rows : of_columns)
    summands = summands.with_kind(axis, Kind::partial);
  return {{x, plan_halo(x.shape(), outputs, windows, nn::edges_behind(geometry, channels + 1)).fetched},
          {summands, made}};
}

std::vector<Way> convolution(const Operation& operation) {
  const Operand *x = operation.operand(0), *w = operation.operand(1), *bias = operation.operand(2);
  if (x == nullptr || w == nullptr || !operation.arguments[4].isList()) return {};
  const bool transposed = operation.name().find("transpose") != std::string::npos;
  const size_t space = static_cast<size_t>(w->layout.dims()) - 2, dims = static_cast<size_t>(x->layout.dims());
  const size_t channels = dims - space - 1;
  const nn::ConvGeometry geometry = geometry_of(operation, transposed);
  const std::vector<int64_t> shape = windowed(x->layout.shape(), geometry.windows, geometry.out_channels);
  if (!is_cut_in(x->layout, channels + 1, dims)) {
    Labels labels = by_sample(operation, space, shape);
    constexpr int kIn = 2000, kOut = 2001;
    labels.operands[0][channels] = kIn;
    labels.results[0][channels] = kOut;
    std::vector<int> of_weight = transposed ? std::vector{kIn, kOut} : std::vector{kOut, kIn};
    for (size_t dim = 0; dim < space; ++dim) {
      of_weight.push_back(static_cast<int>(3000 + dim));
      labels.whole.insert(static_cast<int>(3000 + dim));
    }
    labels.operands.push_back(of_weight);
    if (geometry.groups > 1) {
      labels.whole.insert({kIn, kOut});
      labels.sizes[kIn] = geometry.in_channels;
      labels.sizes[kOut] = geometry.out_channels;
    }
    if (bias != nullptr) {
      labels.operands.push_back({kOut});
      labels.summands.insert(2);
    }
    std::vector<Way> ways = labelled(labels, operation);
    for (Way& way : ways) way.work = products(way, transposed);
    // LibTorch's convolution of nothing has no second derivatives, and without input channels no outputs.
    std::erase_if(ways, [&](const Way& way) {
      return std::ranges::any_of(way.reads,
                                 [&](const Layout& read) { return nn::leaves_some_out(read, operation.home.grid); });
    });
    if (!ways.empty()) return ways;
  }
  const Layout read = nn::summed(x->layout);
  if (is_cut_in(w->layout, 2, static_cast<size_t>(w->layout.dims()))) return {};
  Layout here = whole_along(read, {static_cast<int64_t>(channels)});
  for (const auto& cut : w->layout.cuts())
    for (const std::string& axis : cut.axes)
      if (here.kind(axis) == Kind::split) return {};
  Layout made = beside(here, shape);
  const Layout::Cut& outputs = w->layout.cuts()[transposed ? 1 : 0];
  if (geometry.groups > 1 && (is_cut_in(w->layout, 0, 2))) return {};
  if (!outputs.axes.empty()) made = made.with_cut({outputs.split.along(static_cast<int64_t>(channels)), outputs.axes});
  auto layer = std::make_shared<nn::Convolution>(
      geometry, nn::LayerLayouts{.weight = used_by(here, w->layout), .output = [made](const auto&) { return made; }},
      operation.home.grid);
  Way way{.reads = {read, layer->weight()}, .makes = {made}};
  if (bias != nullptr) way.reads.push_back(layer->bias());
  way.work = products(way, transposed);
  way.moves = moves_of(geometry, read, made, way.reads[1], channels);
  way.kernel = [layer, read, grid = operation.home.grid](Arguments arguments) {
    const at::Tensor b = arguments[2].isNone() ? at::Tensor() : arguments[2].toTensor();
    return std::vector<at::Tensor>{(*layer)({arguments[0].toTensor(), read, grid}, arguments[1].toTensor(), b).local};
  };
  return {std::move(way)};
}

// ---- poolings, upsampling

using Layer = std::function<DistributedTensor(const DistributedTensor&)>;

/// An operation of each sample and channel over space, for which `route` makes the plan where space is cut.
template <class MakeRoute>
std::vector<Way> over_space(const Operation& operation, size_t space, const std::vector<int64_t>& shape,
                            const MakeRoute& route) {
  const Layout& x = operation.operands[0].layout;
  const auto dims = static_cast<size_t>(x.dims());
  if (dims < space + 1 || operation.operands.size() != 1) return {};
  const Layout read = nn::summed(x), made = beside(read, shape);
  Layer layer;
  if (is_cut_in(x, dims - space, dims)) layer = route([made](const std::vector<int64_t>&) { return made; });
  if (!layer) return without_empty_calls(labelled(by_sample(operation, space, shape), operation), operation);
  Way way{.reads = {read}, .makes = {made}};
  way.kernel = [layer, read, grid = operation.home.grid](Arguments arguments) {
    return std::vector<at::Tensor>{layer({arguments[0].toTensor(), read, grid}).local};
  };
  return {std::move(way)};
}

template <class Geometry>
Layer routed(const Operation& operation, const Geometry& geometry, nn::LayoutRule output) {
  const Layout x = nn::summed(operation.operands[0].layout);
  auto route = std::make_shared<nn::Route>(plan_of(geometry, operation.home.grid, std::move(output))(x));
  return [route](const DistributedTensor& given) { return (*route)(given, {}); };
}

size_t space_of(const std::string& name) {
  return static_cast<size_t>(name[name.rfind('d') - 1] - '0');
}

std::vector<Way> pool(const Operation& operation) {
  const std::string& name = operation.name();
  const size_t space = space_of(name);
  const bool is_max = name.find("max_pool") != std::string::npos;
  nn::PoolGeometry geometry{.name = name.substr(6), .is_max = is_max};
  const std::vector<int64_t> kernel = for_each_dim(operation.integers(1), space),
                             stride = for_each_dim(operation.integers(2), space, kernel),
                             padding = for_each_dim(operation.integers(3), space);
  const std::vector<int64_t> dilation =
      is_max ? for_each_dim(operation.integers(4), space) : std::vector<int64_t>(space, 1);
  for (size_t dim = 0; dim < space; ++dim)
    geometry.windows.push_back({.kernel = kernel[dim],
                                .stride = stride[dim],
                                .dilation = dilation[dim],
                                .before = padding[dim],
                                .after = padding[dim],
                                .ceil_mode = operation.arguments[is_max ? 5 : 4].toBool()});
  if (!is_max) {
    geometry.count_include_pad = operation.arguments[5].toBool();
    if (operation.arguments.size() > 6 && !operation.arguments[6].isNone())
      geometry.divisor_override = operation.integer(6);
  }
  return over_space(operation, space, windowed(operation.shape(0), geometry.windows),
                    [&](nn::LayoutRule output) { return routed(operation, geometry, std::move(output)); });
}

std::vector<Way> adaptive_average(const Operation& operation) {
  const size_t space = space_of(operation.name());
  const std::vector<int64_t> outputs = for_each_dim(operation.integers(1), space);
  return over_space(operation, space, resized(operation.shape(0), outputs), [&](nn::LayoutRule output) {
    const std::vector<std::optional<int64_t>> sizes(outputs.begin(), outputs.end());
    return routed(operation, nn::adaptive_pool(/*is_max=*/false, sizes), std::move(output));
  });
}

/// constant_pad_nd(x, padding, value), reflection_pad2d(x, padding) and others: the padding of the last dim comes first. Where a dim of
/// space that is padded is cut, with a halo.
std::vector<Way> pad(const Operation& operation) {
  const std::string& name = operation.name();
  const Layout& x = operation.operands[0].layout;
  const std::vector<int64_t> last_first = operation.integers(1);
  const size_t space = last_first.size() / 2, dims = x.shape().size();
  if (dims < space) return {};
  nn::PadGeometry geometry{.name = name.substr(6), .pads = {}};
  if (name == "aten::_pad_circular") geometry.mode = Padding::circular;
  if (name.starts_with("aten::reflection")) geometry.mode = Padding::reflect;
  if (name.starts_with("aten::replication")) geometry.mode = Padding::replicate;
  const bool is_constant = geometry.mode == Padding::zeros;
  if (is_constant) geometry.value = operation.arguments[2].toScalar().toDouble();
  Labels labels{.operands = {numbered(x.dims())}, .results = {numbered(x.dims())}};
  labels.is_linear = geometry.value == 0;
  std::vector<int64_t> shape = x.shape();
  bool has_halo = dims == space + 1 || dims == space + 2, is_padded_cut = false;
  for (size_t dim = dims - space; dim < dims; ++dim) {
    const size_t at = 2 * (dims - 1 - dim);
    const Pads pads{last_first[at], last_first[at + 1]};
    geometry.pads.push_back(pads);
    if (pads == Pads{}) continue;
    shape[dim] += pads.left + pads.right;
    has_halo = has_halo && shape[dim] > 0 && x.shape()[dim] > 0 && (is_constant || (pads.left >= 0 && pads.right >= 0));
    is_padded_cut = is_padded_cut || is_cut(x, static_cast<int64_t>(dim));
    constexpr int kNew = 1000;
    labels.whole.insert(static_cast<int>(dim));
    labels.results[0][dim] = static_cast<int>(kNew + dim);
    labels.sizes[static_cast<int>(kNew + dim)] = shape[dim];
  }
  if (has_halo && is_padded_cut && operation.arguments[0].toTensor().is_floating_point())
    return over_space(operation, space, shape,
                      [&](nn::LayoutRule output) { return routed(operation, geometry, std::move(output)); });
  return without_empty_calls(labelled(labels, operation), operation);
}

/// upsample_nearest2d(x, output_size, …), bilinear2d(x, output_size, align_corners, …) and others.
std::vector<Way> upsample(const Operation& operation) {
  const std::string& name = operation.name();
  const size_t space = space_of(name);
  const auto dims = static_cast<size_t>(operation.operands[0].layout.dims());
  const std::vector<int64_t> sizes = operation.integers(1);
  return over_space(operation, space, resized(operation.shape(0), sizes), [&](nn::LayoutRule output) -> Layer {
    if (name.find("bicubic") != std::string::npos) return {};  // of whole pictures
    const bool nearest = name.find("nearest") != std::string::npos;
    for (size_t dim = 0; dim < space; ++dim) {
      const c10::IValue& scale = operation.arguments[operation.arguments.size() - space + dim];
      const double ratio =
          static_cast<double>(sizes[dim]) / static_cast<double>(operation.shape(0)[dims - space + dim]);
      if (!scale.isNone() && scale.toDouble() != ratio) return {};
    }
    nn::InterpolateFuncOptions options;
    options.size(sizes);
    if (nearest)
      options.mode(torch::kNearest);
    else if (space == 1)
      options.mode(torch::kLinear);
    else if (space == 2)
      options.mode(torch::kBilinear);
    else
      options.mode(torch::kTrilinear);
    if (!nearest) options.align_corners(operation.arguments[2].toBool());
    auto layer = std::make_shared<nn::UpsampleImpl>(options, operation.home.grid, std::move(output));
    return [layer](const DistributedTensor& x) { return layer->forward(x); };
  });
}

}  // namespace

Table layer_rules() {
  return {{{"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input"},
           convolution,
           /*is_product=*/true},
          {{"max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"}, pool},
          {{"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"}, adaptive_average},
          {{"constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
            "replication_pad2d", "replication_pad3d", "_pad_circular"},
           pad},
          {{"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d",
            "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"},
           upsample}};
}

}  // namespace adjoin::rules
