#include "adjoin/nn/sequence/dropped_tile.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/sequence/dropped_rows.hpp"

namespace adjoin::nn {
namespace {

/// [n, heads, *] -> [h, heads / h n, *]
at::Tensor stacked(const at::Tensor& x, int64_t h) {
  const at::Tensor grouped = x.to(share_type(x)).unflatten(1, {h, x.size(1) / h}).movedim(0, 2);
  return grouped.flatten(1, 2);
}
at::Tensor unstacked(const at::Tensor& x, int64_t n) {
  return x.unflatten(1, {x.size(1) / n, n}).movedim(2, 0).flatten(1, 2);
}

/// factor * a b for each matrix of a batch.
at::Tensor scaled_product(const at::Tensor& a, const at::Tensor& b, double factor) {
  return at::empty({a.size(0), a.size(1), b.size(2)}, a.options()).baddbmm_(a, b, /*beta=*/0, /*alpha=*/factor);
}

/// The tile's scores, [h, heads / h queries, keys].
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const Tile& tile, const AttentionOptions& options) {
  const at::Tensor scores = scaled_product(q, k.transpose(1, 2), *options.scale);
  const at::Tensor hidden = hidden_in(tile, options);
  if (hidden.defined())
    scores.view({-1, tile.queries.size(), tile.keys.size()})
        .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  return scores;
}

/// Calls `work(r, row, scores)` for row r of the tile's scores.
template <class T, class Work>
void for_each_row(const at::Tensor& scores, const Tile& tile, const AttentionOptions& options, const Work& work) {
  const int64_t columns = scores.size(-1), rows = scores.numel() / columns;
  StepContext context = options.context;
  context.first_sample += tile.sample;
  context.first_token = tile.queries.begin;
  const auto words = attention_words(options.name, options.first_head, rows / tile.queries.size(), tile.queries.size(),
                                     context, tile.keys.begin);
  const int32_t threshold = dropout_steps(options.dropout).threshold;
  T* first = scores.mutable_data_ptr<T>();
  at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / columns), [&](int64_t begin, int64_t end) {
    std::vector<uint16_t> random(static_cast<size_t>(columns));
    for (int64_t r = begin; r < end; ++r) {
      const RowOfWords w = words(r);
      philox_row(random, w.key, w.first_column, w.row, w.plane, w.volume);
      work(r, DroppedRow{columns, random.data(), threshold}, first + r * columns);
    }
  });
}

}  // namespace

Share attend_dropped(const TileInputs& x, const Tile& tile, const AttentionOptions& options) {
  const int64_t h = x.k.size(1), n = tile.queries.size();
  const at::Tensor scores = scores_of(stacked(x.q, h), stacked(x.k, h), tile, options);
  const at::Tensor log_sum = at::empty({h, scores.size(1)}, scores.options());
  const at::Tensor factor = at::empty({h, scores.size(1), 1}, scores.options());  // of a row's result
  const InstructionSet set = best_instruction_set();
  AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "attention", [&] {
    const auto kept = static_cast<scalar_t>(dropout_steps(options.dropout).factor);
    scalar_t *logs = log_sum.mutable_data_ptr<scalar_t>(), *factors = factor.mutable_data_ptr<scalar_t>();
    for_each_row<scalar_t>(scores, tile, options, [&](int64_t r, const DroppedRow& row, scalar_t* of_row) {
      const auto [largest, sum] = exponentials_of(set, row, of_row);
      logs[r] = largest + std::log(sum);
      factors[r] = sum > 0 ? kept / sum : 0;
    });
  });
  const at::Tensor out = at::bmm(scores, stacked(x.v, h)).mul_(factor);
  return {unstacked(out, n), unstacked(log_sum, n)};
}

// The gradient of dropped probabilities is dropped alike, and sum_j P_j dP_j is still the product of a row's result and its
// gradient.
TileInputs attend_dropped_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                                   const AttentionOptions& options) {
  const int64_t h = x.k.size(1), n = tile.queries.size(), m = tile.keys.size();
  const at::Tensor q = stacked(x.q, h), k = stacked(x.k, h), v = stacked(x.v, h), g = stacked(y.gradient, h);
  const at::Tensor scores = scores_of(q, k, tile, options), of_scores = at::bmm(g, v.transpose(1, 2));
  const at::Tensor log_sum = stacked(y.log_sum, h).contiguous(), product = (g * stacked(y.out, h)).sum(-1);
  const InstructionSet set = best_instruction_set();
  AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "attention", [&] {
    const auto kept = static_cast<scalar_t>(dropout_steps(options.dropout).factor);
    const scalar_t *logs = log_sum.const_data_ptr<scalar_t>(), *products = product.const_data_ptr<scalar_t>();
    scalar_t* gradients = of_scores.mutable_data_ptr<scalar_t>();
    for_each_row<scalar_t>(scores, tile, options, [&](int64_t r, const DroppedRow& row, scalar_t* of_row) {
      gradients_of(set, row, RowGradient<scalar_t>{logs[r], kept, products[r]}, of_row, gradients + r * m);
    });
  });
  const double scale = *options.scale;
  return {unstacked(scaled_product(of_scores, k, scale), n),
          unstacked(scaled_product(of_scores.transpose(1, 2), q, scale), m),
          unstacked(at::bmm(scores.transpose(1, 2), g), m)};
}

}  // namespace adjoin::nn
