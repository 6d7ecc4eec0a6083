#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>

#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/distributed/held.hpp"
#include "adjoin/nn/distributed/softmax.hpp"
#include "adjoin/nn/rules/operation.hpp"

namespace adjoin::nn::rules {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;

/// Norms over the last dims, which must be whole.
std::vector<Way> layer_norm(const Operation& operation) {
  const int64_t dims = operation.operands[0].layout.dims();
  const auto of_norm = static_cast<int64_t>(operation.integers(1).size());
  const std::vector<int> x = numbered(dims), last(x.end() - of_norm, x.end());
  Labels labels{.operands = {x}, .results = {x}, .whole = {last.begin(), last.end()}};
  for (size_t i = 1; i < operation.operands.size(); ++i) labels.operands.push_back(last);
  return labelled(labels, operation);
}

/// Softmax along a dim stays where x lies, if the dim is cut by exchanging a maximum and a sum of each row.
std::vector<Way> softmax(const Operation& operation) {
  const Layout x = summed_up(operation.operands[0].layout);
  if (x.dims() == 0) return as_it_lies(operation, {x});
  const int64_t dim = operation.dim(1, x.dims());
  Way way{.reads = {x}, .makes = {x}};
  if (!x.cuts()[static_cast<size_t>(dim)].axes.empty())
    way.kernel = [along = SoftmaxAlong(x, dim, operation.home.grid),
                  logarithm = operation.name() == "aten::log_softmax"](Arguments arguments) {
      at::Tensor here = arguments[0].toTensor();
      if (!arguments[2].isNone()) here = here.to(arguments[2].toScalarType());
      return std::vector<at::Tensor>{logarithm ? along.log_softmax(here) : along.softmax(here)};
    };
  return {std::move(way)};
}

/// Zeros that stay in the graph of a table.
at::Tensor nothing_of(const at::Tensor& vectors, const std::vector<int64_t>& shape) {
  return vectors.narrow(0, 0, 0).sum(0).expand(shape);
}

/// Vectors of words. Where words are cut, each worker gives those of its own, and zeros for the others.
std::vector<Way> embedding(const Operation& operation) {
  if (operation.operands.size() != 2 || operation.arguments[3].toBool() || operation.arguments[4].toBool()) return {};
  const Layout& table = operation.operands[0].layout;
  constexpr int kWord = 1000, kFeature = 1001;
  std::vector<int> result = numbered(operation.operands[1].layout.dims());
  const std::vector<int> ids = result;
  result.push_back(kFeature);
  const Labels labels{.operands = {{kWord, kFeature}, ids}, .results = {result}};
  std::vector<Way> ways = labelled(labels, operation);
  for (Way& way : ways) {
    const std::vector<int64_t> made = way.makes[0].shape_on(operation.home.rank);
    if (std::ranges::find(made, 0) != made.end()) {  // LibTorch's second derivative expects ids
      way.kernel = [made](Arguments arguments) {
        return std::vector<at::Tensor>{nothing_of(arguments[0].toTensor(), made)};
      };
      continue;
    }
    if (way.reads[0].cuts()[0].axes.empty()) continue;
    const at::Tensor places = places_held(way.reads[0], 0, operation.home.rank);
    const int64_t padding = operation.integer(2);
    way.kernel = [places, words = table.shape()[0], padding](Arguments arguments) {
      const at::Tensor vectors = arguments[0].toTensor(), all = arguments[1].toTensor();
      TORCH_CHECK_INDEX(all.numel() == 0 || (all.min().item<int64_t>() >= 0 && all.max().item<int64_t>() < words),
                        "embedding: expected ids of ", words, " words");
      const at::Tensor here = places.index({all}), held = here >= 0;
      std::vector<int64_t> shape = all.sizes().vec();
      shape.push_back(vectors.size(1));
      if (vectors.size(0) == 0) return std::vector<at::Tensor>{nothing_of(vectors, shape)};
      const int64_t own_padding = padding < 0 ? -1 : places[padding].item<int64_t>();
      const at::Tensor found = at::embedding(vectors, here.clamp_min(0), own_padding);
      return std::vector<at::Tensor>{found.masked_fill(held.logical_not().unsqueeze(-1), 0)};
    };
  }
  return ways;
}

/// Attention in which samples and heads may be cut, and the queries' rows: then each worker has all keys and values.
std::vector<Way> attention(const Operation& operation) {
  const Operand *q = operation.operand(0), *k = operation.operand(1), *v = operation.operand(2),
                *mask = operation.operand(3);
  if (q == nullptr || k == nullptr || v == nullptr || operation.arguments[4].toDouble() != 0) return {};
  const int64_t dims = q->layout.dims();
  if (k->layout.dims() != dims || v->layout.dims() != dims || dims < 2) return {};
  constexpr int kQueries = 1000, kKeys = 1001, kFeatures = 1002, kValues = 1003, kKeyHeads = 1004;
  const bool is_causal = operation.arguments[5].toBool();
  const std::vector<int> batch = numbered(dims - 2);
  const auto with = [&](std::vector<int> labels, int rows, int features) {
    labels.push_back(rows);
    labels.push_back(features);
    return labels;
  };
  std::vector<int> of_keys = batch;
  const bool groups =
      operation.arguments.size() > 7 && operation.arguments[7].toBool() && dims > 2 &&
      k->layout.shape()[static_cast<size_t>(dims - 3)] != q->layout.shape()[static_cast<size_t>(dims - 3)];
  if (groups) of_keys.back() = kKeyHeads;
  Labels labels{
      .operands = {with(batch, kQueries, kFeatures), with(of_keys, kKeys, kFeatures), with(of_keys, kKeys, kValues)},
      .results = {with(batch, kQueries, kValues)},
      .whole = {kKeys, kFeatures, kValues}};
  for (int64_t dim = 0; dim < dims - 2; ++dim)
    if (!groups && k->layout.shape()[static_cast<size_t>(dim)] != q->layout.shape()[static_cast<size_t>(dim)])
      return {};
  if (groups) labels.whole.insert({kKeyHeads, batch.back()});
  if (mask != nullptr) {
    std::vector<int64_t> shape = q->layout.shape();
    shape.back() = k->layout.shape()[static_cast<size_t>(dims - 2)];
    if (mask->layout.dims() > dims) return {};
    labels.operands.push_back(broadcast_labels(mask->layout.shape(), shape, with(batch, kQueries, kKeys)));
  }
  std::vector<Way> ways = labelled(labels, operation);
  if (is_causal)
    for (Way& way : ways) {
      const Layout::Cut& rows = way.reads[0].cuts()[static_cast<size_t>(dims - 2)];
      const auto cell = way.reads[0].grid().cell_of(operation.home.rank);
      if (rows.axes.empty() || !cell) continue;
      const at::Tensor tokens = indices_held(way.reads[0], dims - 2, *cell);
      const at::Tensor keys = at::arange(k->layout.shape()[static_cast<size_t>(dims - 2)], at::kLong);
      way.arguments = {{3, tokens.unsqueeze(1) >= keys.unsqueeze(0)}, {5, false}};
    }
  return ways;
}

/// The loss of classes. Where no dim is cut, LibTorch's own.
std::vector<Way> class_loss(const Operation& operation) {
  const Operand *x = operation.operand(0), *target = operation.operand(1);
  if (x == nullptr || target == nullptr || operation.operand(2) != nullptr) return {};
  const Layout scores = summed_up(x->layout), targets = summed_up(target->layout);
  if (scores.shape() == targets.shape()) return {};  // probabilities of classes
  const Layout one(scores.grid(), {});
  const bool is_cut = !scores.axes(Kind::split).empty() || !targets.axes(Kind::split).empty();
  const auto reduction = operation.integer(3);
  if (!is_cut) {
    const Layout made = reduction == 0 ? Layout(scores.grid(), targets.shape()) : one;
    Way way{.reads = {Layout(scores.grid(), scores.shape()), Layout(scores.grid(), targets.shape())}, .makes = {made}};
    return {std::move(way)};
  }
  if (reduction == 0) return {};
  CrossEntropyLossOptions options;
  options.ignore_index(operation.integer(4)).label_smoothing(operation.arguments[5].toDouble());
  if (reduction == 1)
    options.reduction(torch::kMean);
  else
    options.reduction(torch::kSum);
  Way way{.reads = {scores, targets}, .makes = {one}, .is_everywhere = true};
  auto layer = std::make_shared<CrossEntropyLossImpl>(options, operation.home.grid);
  way.kernel = [layer, scores, targets, grid = operation.home.grid](Arguments arguments) {
    return std::vector<at::Tensor>{
        layer->forward({arguments[0].toTensor(), scores, grid}, {arguments[1].toTensor(), targets, grid}).local};
  };
  return {std::move(way)};
}

}  // namespace

Table row_rules() {
  return {{{"layer_norm", "rms_norm"}, layer_norm},
          {{"softmax.int", "log_softmax.int"}, softmax},
          {{"embedding"}, embedding},
          {{"scaled_dot_product_attention"}, attention, /*is_product=*/true},
          {{"cross_entropy_loss"}, class_loss}};
}

}  // namespace adjoin::nn::rules
