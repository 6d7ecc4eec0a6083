#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "adjoin/partition/halo_plan.hpp"
#include "adjoin/rules/operation.hpp"

// Windows of a tensor as dims of a larger one, and back.

namespace adjoin::rules {
namespace {

/// unfold(x, dim, size, step): a dim becomes the number of its windows, and a new last dim their size. Where it is cut, each worker fetches
/// what its own windows need.
std::vector<Way> unfold(const Operation& operation) {
  const Layout x = nn::summed(operation.operands[0].layout);
  const int64_t dims = x.dims(), size = operation.integer(2), step = operation.integer(3);
  if (dims == 0) return {};
  const auto dim = static_cast<size_t>(operation.dim(1, dims));
  if (size < 1 || step < 1 || size > x.shape()[dim]) return {};
  std::vector<Window> windows(static_cast<size_t>(dims));
  windows[dim] = {.kernel = size, .stride = step};
  std::vector<int64_t> shape = x.shape(), from(shape.size());
  std::iota(from.begin(), from.end(), 0);
  Layout read = x, made = x;
  if (!is_cut(x, static_cast<int64_t>(dim))) {
    shape[dim] = outputs_of(windows[dim], shape[dim]);
    made = reshaped(x, shape, from);
  } else {
    const HaloPlan plan = plan_halo(x, windows, Padding::zeros);
    read = plan.fetched;
    made = plan.outputs;
    shape = made.shape();
  }
  shape.push_back(size);
  from.push_back(-1);
  Way way{.reads = {read}, .makes = {reshaped(made, shape, from)}};
  // LibTorch's fails without a window; zeros of x stay in its graph, as other workers send gradients to this one.
  if (const std::vector<int64_t> here = way.makes[0].shape_on(operation.home.rank); std::ranges::count(here, 0) > 0)
    way.kernel = [here](Arguments arguments) {
      return std::vector<at::Tensor>{arguments[0].toTensor().flatten().narrow(0, 0, 0).sum().expand(here)};
    };
  return {std::move(way)};
}

/// The first dims are samples, which may be cut; all others must be whole.
std::vector<Way> by_samples(const Operation& operation, size_t samples, const std::vector<int64_t>& shape) {
  const int64_t dims = operation.operands[0].layout.dims();
  constexpr int kNew = 1000;
  Labels labels{.operands = {numbered(dims)}, .results = {{}}, .is_linear = true};
  for (size_t dim = samples; dim < static_cast<size_t>(dims); ++dim) labels.whole.insert(static_cast<int>(dim));
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int label = static_cast<int>(dim < samples ? dim : kNew + dim);
    labels.results[0].push_back(label);
    if (dim >= samples) labels.sizes[label] = shape[dim];
  }
  return without_empty_calls(labelled(labels, operation), operation);
}

int64_t product(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<>());
}

/// Whether these are what LibTorch expects for two dims of space; it says itself what it does not take.
bool are_pairs(std::initializer_list<std::vector<int64_t>> all) {
  return std::ranges::all_of(all, [](const std::vector<int64_t>& pair) {
    return pair.size() == 2 && std::ranges::all_of(pair, [](int64_t number) { return number >= 1; });
  });
}

/// im2col(x [samples, channels, h, w], kernel, dilation, padding, stride): [samples, channels * kernel, windows].
std::vector<Way> windows_as_columns(const Operation& operation) {
  const std::vector<int64_t> kernel = operation.integers(1), dilation = operation.integers(2),
                             padding = operation.integers(3), stride = operation.integers(4);
  const std::vector<int64_t>& x = operation.shape(0);
  if (x.size() < 3 || padding.size() != 2 || !are_pairs({kernel, dilation, stride})) return {};
  const size_t samples = x.size() - 3;
  std::vector<int64_t> shape(x.begin(), x.begin() + static_cast<ptrdiff_t>(samples));
  int64_t windows = 1;
  for (size_t d = 0; d < 2; ++d)
    windows *= (x[samples + 1 + d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  shape.insert(shape.end(), {x[samples] * product(kernel), windows});
  return by_samples(operation, samples, shape);
}

/// col2im(x [samples, channels * kernel, windows], sizes, kernel, …): [samples, channels, *sizes].
std::vector<Way> columns_as_sums(const Operation& operation) {
  const std::vector<int64_t>& x = operation.shape(0);
  if (x.size() < 2 || !are_pairs({operation.integers(2)})) return {};
  const size_t samples = x.size() - 2;
  std::vector<int64_t> shape(x.begin(), x.begin() + static_cast<ptrdiff_t>(samples));
  shape.push_back(x[samples] / product(operation.integers(2)));
  for (const int64_t size : operation.integers(1)) shape.push_back(size);
  return by_samples(operation, samples, shape);
}

/// [*, channels, h, w] with `factor` times the channels, or the pixels, of each dim.
std::vector<Way> pixel_shuffle(const Operation& operation) {
  const int64_t factor = operation.integer(1);
  std::vector<int64_t> shape = operation.shape(0);
  if (shape.size() < 3 || factor < 1) return {};
  const size_t samples = shape.size() - 3;
  const bool gathers_pixels = operation.name() == "aten::pixel_unshuffle";
  const auto times = [&](int64_t size, int64_t count, bool more) { return more ? size * count : size / count; };
  shape[samples] = times(shape[samples], factor * factor, gathers_pixels);
  for (size_t d = 1; d < 3; ++d) shape[samples + d] = times(shape[samples + d], factor, !gathers_pixels);
  return by_samples(operation, samples, shape);
}

}  // namespace

Table window_rules() {
  return {{{"unfold"}, unfold},
          {{"im2col"}, windows_as_columns},
          {{"col2im"}, columns_as_sums},
          {{"pixel_shuffle", "pixel_unshuffle"}, pixel_shuffle}};
}

}  // namespace adjoin::rules
