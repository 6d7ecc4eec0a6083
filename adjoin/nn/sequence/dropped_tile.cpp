#include "adjoin/nn/sequence/dropped_tile.hpp"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "adjoin/movement/on_threads.hpp"
#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/fixed/product.hpp"
#include "adjoin/nn/sequence/dropped_rows.hpp"

namespace adjoin::nn {
namespace {

// Works on one key head after another, so that its scores stay in the cache; the query heads that share it are stacked.

/// Head i of h: [n, heads, *] -> [heads / h n, *]
at::Tensor stacked(const at::Tensor& x, int64_t i, int64_t h) {
  const int64_t each = x.size(1) / h;
  return x.narrow(1, i * each, each).to(partial_type(x)).transpose(0, 1).flatten(0, 1);
}
/// [each n, *] of each head -> [n, heads, *]
at::Tensor unstacked(const std::vector<at::Tensor>& of_heads, int64_t n) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& x : of_heads) parts.push_back(x.unflatten(0, {x.size(0) / n, n}).transpose(0, 1));
  return at::cat(parts, 1);
}

/// factor * a b
at::Tensor scaled_product(const at::Tensor& a, const at::Tensor& b, double factor, const AttentionOptions& options) {
  if (options.in_order()) return fixed::product(a, b).mul_(factor);
  return at::empty({a.size(0), b.size(1)}, a.options()).addmm_(a, b, /*beta=*/0, /*alpha=*/factor);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const AttentionOptions& options) {
  return options.in_order() ? fixed::product(a, b) : at::mm(a, b);
}

/// The sum of each last row of a b.
at::Tensor sums_of_products(const at::Tensor& a, const at::Tensor& b, const AttentionOptions& options) {
  if (!options.in_order()) return (a * b).sum(-1);
  const at::Tensor products = (a * b).contiguous(), sums = at::empty(products.sizes().slice(0, 2), products.options());
  on_one_thread_each(products.size(0), 1, [&](Range rows) {
    sums.narrow(0, rows.begin, rows.size()).copy_(products.narrow(0, rows.begin, rows.size()).sum(-1));
  });
  return sums;
}

/// The tile's scores, [heads / h queries, keys].
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden,
                     const AttentionOptions& options) {
  const at::Tensor scores = scaled_product(q, k.t(), *options.scale, options);
  if (hidden.defined())
    scores.view({-1, hidden.size(0), hidden.size(1)}).masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  return scores;
}

/// Calls `work(r, row, scores)` for each row r of the tile's scores; the first row belongs to query head `head`.
template <class T, class Work>
void for_each_row(const at::Tensor& scores, int64_t head, const Tile& tile, const AttentionOptions& options,
                  const Work& work) {
  const int64_t columns = scores.size(-1), rows = scores.numel() / columns;
  const auto words = words_of(tile, head, rows / tile.queries.size(), options);
  const int32_t threshold = dropout_steps(options.dropout).threshold;
  T* first = scores.mutable_data_ptr<T>();
  on_threads(rows, std::max<int64_t>(1, 16384 / columns), [&](Range part) {
    std::vector<uint16_t> random(static_cast<size_t>(columns));
    for (int64_t r = part.begin; r < part.end; ++r) {
      const MaskRow w = words(r);
      philox_row(random, w.key, w.first_column, w.row, w.plane, w.volume);
      work(r, DroppedRow{columns, random.data(), threshold}, first + r * columns);
    }
  });
}

/// The results for one head's scores: [rows, size], and the log-sum-exp [rows].
std::pair<at::Tensor, at::Tensor> attend_head(const at::Tensor& scores, const at::Tensor& v, int64_t head,
                                              const Tile& tile, const AttentionOptions& options) {
  const at::Tensor log_sum = at::empty({scores.size(0)}, scores.options());
  const at::Tensor factor = at::empty({scores.size(0), 1}, scores.options());  // for each row's result
  const InstructionSet set = best_instruction_set();
  AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "attention", [&] {
    const auto kept = static_cast<scalar_t>(dropout_steps(options.dropout).factor);
    scalar_t *logs = log_sum.mutable_data_ptr<scalar_t>(), *factors = factor.mutable_data_ptr<scalar_t>();
    for_each_row<scalar_t>(scores, head, tile, options, [&](int64_t r, const DroppedRow& row, scalar_t* of_row) {
      const auto [largest, sum] = exponentials_of(set, row, of_row);
      logs[r] = largest + std::log(sum);
      factors[r] = sum == 0 ? 0 : kept / sum;
    });
  });
  return {product(scores, v, options).mul_(factor), log_sum};
}

/// Replaces scores by the probabilities after dropout, and `gradients`, which are those of the probabilities, by the gradients
/// of the scores. `product` is the dot product of each row's result and its gradient. It equals sum_j P_j dP_j also with
/// dropout, which drops the same gradients.
void probabilities_and_gradients(const at::Tensor& scores, const at::Tensor& gradients, const at::Tensor& log_sum,
                                 const at::Tensor& product, int64_t head, const Tile& tile,
                                 const AttentionOptions& options) {
  const InstructionSet set = best_instruction_set();
  AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "attention", [&] {
    const auto kept = static_cast<scalar_t>(dropout_steps(options.dropout).factor);
    const scalar_t *logs = log_sum.const_data_ptr<scalar_t>(), *products = product.const_data_ptr<scalar_t>();
    scalar_t* first = gradients.mutable_data_ptr<scalar_t>();
    for_each_row<scalar_t>(scores, head, tile, options, [&](int64_t r, const DroppedRow& row, scalar_t* of_row) {
      gradients_of(set, row, RowGradient<scalar_t>{logs[r], kept, products[r]}, of_row, first + r * row.size);
    });
  });
}

}  // namespace

PartialAttention attend_dropped(const TileInputs& x, const Tile& tile, const AttentionOptions& options) {
  const int64_t h = x.k.size(1), each = x.q.size(1) / h;
  const at::Tensor hidden = hidden_in(tile, options);
  std::vector<at::Tensor> outs, log_sums;
  for (int64_t i = 0; i < h; ++i) {
    const at::Tensor scores = scores_of(stacked(x.q, i, h), stacked(x.k, i, h), hidden, options);
    auto [out, log_sum] = attend_head(scores, stacked(x.v, i, h), i * each, tile, options);
    outs.push_back(std::move(out));
    log_sums.push_back(std::move(log_sum));
  }
  return {unstacked(outs, tile.queries.size()), unstacked(log_sums, tile.queries.size())};
}

TileInputs attend_dropped_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                                   const AttentionOptions& options) {
  const int64_t h = x.k.size(1), each = x.q.size(1) / h;
  const double scale = *options.scale;
  const at::Tensor hidden = hidden_in(tile, options);
  const at::Tensor products = sums_of_products(y.gradient.to(partial_type(x.q)), y.out, options);
  std::vector<at::Tensor> of_q, of_k, of_v;
  for (int64_t i = 0; i < h; ++i) {
    const at::Tensor q = stacked(x.q, i, h), k = stacked(x.k, i, h), g = stacked(y.gradient, i, h);
    const at::Tensor scores = scores_of(q, k, hidden, options), of_scores = product(g, stacked(x.v, i, h).t(), options);
    probabilities_and_gradients(scores, of_scores, stacked(y.log_sum, i, h).contiguous(),
                                stacked(products, i, h).contiguous(), i * each, tile, options);
    of_q.push_back(scaled_product(of_scores, k, scale, options));
    of_k.push_back(scaled_product(of_scores.t(), q, scale, options));
    of_v.push_back(product(scores.t(), g, options));
  }
  return {unstacked(of_q, tile.queries.size()), unstacked(of_k, tile.keys.size()), unstacked(of_v, tile.keys.size())};
}

}  // namespace adjoin::nn
