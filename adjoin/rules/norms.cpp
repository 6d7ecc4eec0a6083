#include <memory>
#include <numeric>

#include "adjoin/nn/distributed/batch_norm.hpp"
#include "adjoin/nn/distributed/layer_norm.hpp"
#include "adjoin/rules/operation.hpp"

// Norms. Where what is normalised is whole, LibTorch's operation runs on the pieces; where it is cut, the plan and the kernel of a layer of
// nn/distributed.

namespace adjoin::rules {
namespace {

std::vector<Way> batch_norm(const Operation& operation) {
  const Operand* x = operation.operand(0);
  const int64_t dims = x == nullptr ? 0 : x->layout.dims();
  if (dims < 2) return {};
  const bool has_statistics = operation.operand(3) != nullptr,
             trains = operation.arguments[5].toBool() || !has_statistics;
  Labels labels{.operands = {numbered(dims)}, .results = {numbered(dims)}};
  for (size_t i = 1; i < operation.operands.size(); ++i) labels.operands.push_back({1});
  if (!trains) return without_empty_calls(labelled(labels, operation), operation);
  const bool over_workers = is_cut_in(x->layout, 0, 1) || is_cut_in(x->layout, 2, static_cast<size_t>(dims));
  if (!over_workers) {
    for (int64_t dim = 0; dim < dims; ++dim)
      if (dim != 1 || has_statistics) labels.whole.insert(static_cast<int>(dim));
    return without_empty_calls(labelled(labels, operation), operation);
  }
  const Layout read = whole_along(nn::summed(x->layout), {1});
  for (size_t i = 1; i < operation.operands.size(); ++i)
    if (is_cut_in(operation.operands[i].layout, 0, 1)) return {};
  auto layer = std::make_shared<nn::ChannelNorm>(nn::ChannelNormGeometry{.name = "batch_norm",
                                                                         .space = static_cast<size_t>(dims) - 2,
                                                                         .features = x->layout.shape()[1],
                                                                         .eps = operation.arguments[7].toDouble()},
                                                 nn::LayerLayouts{.output = [read](const auto&) { return read; }},
                                                 operation.home.grid);
  std::vector<int64_t> reduced(static_cast<size_t>(dims) - 1);
  std::iota(reduced.begin(), reduced.end(), 1);
  reduced[0] = 0;  // all but the channels
  Way way{.reads = {read}, .makes = {read}, .moves = sums_over(read, reduced)};
  for (size_t i = 1; i < operation.operands.size(); ++i) way.reads.push_back(layer->weight());
  way.kernel = [layer, read, grid = operation.home.grid](Arguments arguments) {
    const auto tensor = [&](size_t i) { return arguments[i].isNone() ? at::Tensor() : arguments[i].toTensor(); };
    return std::vector<at::Tensor>{(*layer)({tensor(0), read, grid}, {.weight = tensor(1),
                                                                      .bias = tensor(2),
                                                                      .running_mean = tensor(3),
                                                                      .running_var = tensor(4),
                                                                      .training = true,
                                                                      .momentum = arguments[6].toDouble()})
                                       .local};
  };
  return {std::move(way)};
}

/// A norm over the dims from `rows` on, of which workers have parts.
std::vector<Way> sample_norm(const Operation& operation, nn::SampleNormGeometry geometry, size_t rows, size_t weight,
                             size_t bias) {
  const Layout x = nn::summed(operation.operands[0].layout);
  for (size_t i = 1; i < operation.operands.size(); ++i)
    for (const Layout::Cut& cut : operation.operands[i].layout.cuts())
      if (!cut.axes.empty()) return {};
  auto layer = std::make_shared<nn::SampleNorm>(
      std::move(geometry), nn::LayerLayouts{.output = [x](const auto&) { return x; }}, operation.home.grid);
  std::vector<int64_t> reduced(static_cast<size_t>(x.dims()) - rows);
  std::iota(reduced.begin(), reduced.end(), static_cast<int64_t>(rows));
  Way way{.reads = {x}, .makes = {x}, .moves = sums_over(x, reduced)};
  for (size_t i = 1; i < operation.operands.size(); ++i) way.reads.push_back(layer->weight());
  way.kernel = [layer, x, weight, bias, grid = operation.home.grid](Arguments arguments) {
    const auto tensor = [&](size_t i) {
      return i == 0 || arguments[i].isNone() ? at::Tensor() : arguments[i].toTensor();
    };
    return std::vector<at::Tensor>{(*layer)({arguments[0].toTensor(), x, grid}, tensor(weight), tensor(bias)).local};
  };
  return {std::move(way)};
}

std::vector<Way> group_norm(const Operation& operation) {
  const Layout& x = operation.operands[0].layout;
  const auto dims = static_cast<size_t>(x.dims());
  if (dims < 2) return {};
  if (is_cut_in(x, 1, dims))
    return sample_norm(operation,
                       {.name = "group_norm",
                        .shape = {x.shape()[1]},
                        .groups = operation.integer(1),
                        .eps = operation.arguments[4].toDouble()},
                       /*rows=*/1, /*weight=*/2, /*bias=*/3);
  Labels labels{.operands = {numbered(x.dims())}, .results = {numbered(x.dims())}};
  for (size_t dim = 1; dim < dims; ++dim) labels.whole.insert(static_cast<int>(dim));
  for (size_t i = 1; i < operation.operands.size(); ++i) labels.operands.push_back({1});
  return without_empty_calls(labelled(labels, operation), operation);
}

std::vector<Way> layer_norm(const Operation& operation) {
  const int64_t dims = operation.operands[0].layout.dims();
  const std::vector<int64_t> shape = operation.integers(1);
  const auto of_norm = static_cast<int64_t>(shape.size());
  const bool centred = operation.name() == "aten::layer_norm";
  if (is_cut_in(operation.operands[0].layout, static_cast<size_t>(dims - of_norm), static_cast<size_t>(dims)))
    if (auto ways = sample_norm(operation,
                                {.name = operation.name().substr(6),
                                 .shape = shape,
                                 .eps = operation.arguments[centred ? 4 : 3].toOptional<double>(),
                                 .centred = centred},
                                static_cast<size_t>(dims - of_norm), /*weight=*/2, centred ? 3 : 0);
        !ways.empty())
      return ways;
  const std::vector<int> x = numbered(dims), last(x.end() - of_norm, x.end());
  Labels labels{.operands = {x}, .results = {x}, .whole = {last.begin(), last.end()}};
  for (size_t i = 1; i < operation.operands.size(); ++i) labels.operands.push_back(last);
  return without_empty_calls(labelled(labels, operation), operation);
}

}  // namespace

Table norm_rules() {
  return {{{"batch_norm"}, batch_norm}, {{"group_norm"}, group_norm}, {{"layer_norm", "rms_norm"}, layer_norm}};
}

}  // namespace adjoin::rules
