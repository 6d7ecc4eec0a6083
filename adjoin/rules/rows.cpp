#include <ATen/TensorOperators.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "adjoin/movement/autocast_mode.hpp"
#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/distributed/embedding.hpp"
#include "adjoin/nn/distributed/held.hpp"
#include "adjoin/nn/distributed/softmax.hpp"
#include "adjoin/nn/id_range.hpp"
#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {
namespace {

/// Softmax along a dim stays where x lies, if the dim is cut by exchanging a maximum and a sum of each row.
std::vector<Way> softmax(const Operation& operation) {
  const Layout x = nn::summed(operation.operands[0].layout);
  if (x.dims() == 0) return as_it_lies(operation, {x});
  const int64_t dim = operation.dim(1, x.dims());
  Way way{.reads = {x}, .makes = {x}, .moves = sums_over(x, {dim})};
  if (is_cut(x, dim))
    way.kernel = [along = nn::SoftmaxAlong(x, dim, operation.home.grid),
                  logarithm = operation.name() == "aten::log_softmax"](Arguments arguments) {
      at::Tensor here = arguments[0].toTensor();
      if (!arguments[2].isNone()) here = here.to(arguments[2].toScalarType());
      return std::vector<at::Tensor>{logarithm ? along.log_softmax(here) : along.softmax(here)};
    };
  return {std::move(way)};
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
      way.kernel = [made](Arguments arguments) {     // zeros that stay in the graph of the table
        return std::vector<at::Tensor>{arguments[0].toTensor().narrow(0, 0, 0).sum(0).expand(made)};
      };
      continue;
    }
    if (way.reads[0].cuts()[0].axes.empty()) continue;
    const at::Tensor places = nn::places_held(way.reads[0], 0, operation.home.rank);
    const int64_t padding = operation.integer(2) < 0 ? -1 : places[operation.integer(2)].item<int64_t>();
    way.kernel = [places, words = table.shape()[0], padding](Arguments arguments) {
      const at::Tensor vectors = arguments[0].toTensor(), all = arguments[1].toTensor();
      const auto [least, most] = all.numel() == 0 ? std::pair<int64_t, int64_t>() : nn::range_of(all);
      TORCH_CHECK_INDEX(least >= 0 && most < words, "embedding: expected ids of ", words, " words");
      return std::vector<at::Tensor>{nn::look_up_here(all, vectors, places, padding)};
    };
  }
  return ways;
}

/// Attention whose probabilities go through `drop`.
template <class Drop>
std::vector<at::Tensor> composed_attention(Arguments arguments, const Drop& drop) {
  const at::Tensor q = arguments[0].toTensor();
  at::Tensor k = arguments[1].toTensor(), v = arguments[2].toTensor();
  if (q.dim() > 2 && k.size(-3) != q.size(-3) && k.size(-3) > 0) {
    const int64_t heads = q.size(-3) / k.size(-3);
    k = k.repeat_interleave(heads, -3);
    v = v.repeat_interleave(heads, -3);
  }
  const double scale = arguments[6].isNone() ? 1 / std::sqrt(static_cast<double>(q.size(-1))) : arguments[6].toDouble();
  at::Tensor x = at::matmul(q, k.transpose(-2, -1)) * scale;
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (arguments[5].toBool())
    x = x.masked_fill(at::ones({x.size(-2), x.size(-1)}, x.options().dtype(at::kBool)).tril().logical_not(), kNever);
  if (arguments[3].isTensor()) {
    const at::Tensor mask = arguments[3].toTensor();
    x = mask.scalar_type() == at::kBool ? x.masked_fill(mask.logical_not(), kNever) : x + mask;
  }
  return {at::matmul(drop(at::_safe_softmax(x, -1)), v)};
}

/// Attention of these pieces. Where autocast is on, in float32, as nn's own: LibTorch's fused kernel is slower with 16-bit numbers.
std::vector<at::Tensor> attended(const c10::OperatorHandle& handle, Arguments arguments) {
  if (arguments[0].toTensor().numel() == 0)  // LibTorch 2.11 divides by the number of its rows
    return composed_attention(arguments, [](const at::Tensor& p) { return p; });
  Stack stack(arguments.begin(), arguments.end());
  const std::optional<at::ScalarType> type = type_of_products(at::kCPU);
  if (!type) {
    handle.callBoxed(&stack);
    return {stack[0].toTensor()};
  }
  for (size_t i = 0; i < 4; ++i)
    if (stack[i].isTensor() && stack[i].toTensor().is_floating_point()) stack[i] = stack[i].toTensor().to(at::kFloat);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  handle.callBoxed(&stack);
  return {stack[0].toTensor().to(*type)};
}

/// Attention with dropout, whose mask is over the scores: LibTorch's kernels draw it by a generator of this process.
std::vector<at::Tensor> attention_with_dropout(Arguments arguments, const Layout& scores, GlobalGrid& home) {
  return composed_attention(arguments, [&](const at::Tensor& p) {
    return dropped(p, scores, arguments[4].toDouble(), "aten::scaled_dot_product_attention", home);
  });
}

/// Attention in which samples and heads may be cut, and the queries' rows: then each worker has all keys and values.
std::vector<Way> attention(const Operation& operation) {
  const Operand *q = operation.operand(0), *k = operation.operand(1), *v = operation.operand(2),
                *mask = operation.operand(3);
  if (q == nullptr || k == nullptr || v == nullptr) return {};
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
  for (Way& way : ways)
    way.kernel = [handle = operation.handle](Arguments arguments) { return attended(handle, arguments); };
  if (is_causal)
    for (Way& way : ways) {
      const Layout::Cut& rows = way.reads[0].cuts()[static_cast<size_t>(dims - 2)];
      const auto cell = way.reads[0].grid().cell_of(operation.home.rank);
      if (rows.axes.empty() || !cell) continue;
      const at::Tensor tokens = nn::indices_held(way.reads[0], dims - 2, *cell);
      const at::Tensor keys = at::arange(k->layout.shape()[static_cast<size_t>(dims - 2)], at::kLong);
      const at::Device device = operation.arguments[0].toTensor().device();
      way.arguments = {{3, (tokens.unsqueeze(1) >= keys.unsqueeze(0)).to(device)}, {5, false}};
    }
  if (operation.arguments[4].toDouble() != 0)
    for (Way& way : ways) {
      std::vector<int64_t> shape = q->layout.shape(), from(q->layout.shape().size());
      std::iota(from.begin(), from.end(), 0);
      shape.back() = k->layout.shape()[static_cast<size_t>(dims - 2)];
      from.back() = -1;
      way.kernel = [scores = reshaped(way.reads[0], shape, from), home = &operation.home](Arguments arguments) {
        return attention_with_dropout(arguments, scores, *home);
      };
    }
  return ways;
}

/// The loss of classes. Where no dim is cut, LibTorch's own.
std::vector<Way> class_loss(const Operation& operation) {
  const Operand *x = operation.operand(0), *target = operation.operand(1);
  if (x == nullptr || target == nullptr || operation.operand(2) != nullptr) return {};
  const Layout scores = nn::summed(x->layout), targets = nn::summed(target->layout);
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
  nn::CrossEntropyLossOptions options;
  options.ignore_index(operation.integer(4)).label_smoothing(operation.arguments[5].toDouble());
  if (reduction == 1)
    options.reduction(torch::kMean);
  else
    options.reduction(torch::kSum);
  Way way{.reads = {scores, targets},
          .makes = {one},
          .moves = sums_over(scores, {scores.dims() > 1 ? 1 : 0}),
          .is_everywhere = true};
  auto layer = std::make_shared<nn::CrossEntropyLossImpl>(options, operation.home.grid);
  way.kernel = [layer, scores, targets, grid = operation.home.grid](Arguments arguments) {
    return std::vector<at::Tensor>{
        layer->forward({arguments[0].toTensor(), scores, grid}, {arguments[1].toTensor(), targets, grid}).local};
  };
  return {std::move(way)};
}

}  // namespace

Table row_rules() {
  return {{{"softmax.int", "log_softmax.int"}, softmax},
          {{"embedding"}, embedding},
          {{"scaled_dot_product_attention"}, attention},
          {{"cross_entropy_loss"}, class_loss}};
}

}  // namespace adjoin::rules
