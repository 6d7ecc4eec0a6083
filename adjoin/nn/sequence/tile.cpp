#include "adjoin/nn/sequence/tile.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/fixed/elementwise.hpp"
#include "adjoin/nn/sequence/composed_tile.hpp"
#include "adjoin/nn/sequence/dropped_tile.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::nn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kTileLength = 512;  // for scores that are tensors: 1 MiB of float32 for each head

/// A run or a part of it, the place of its first token among its worker's rows, and in a fixed order its number among those of the
/// sample.
struct PieceOfRun {
  Run run;
  int64_t row, number, count;
};

/// A range in pieces of at most `longest`.
std::vector<Range> cut(Range all, int64_t longest) {
  std::vector<Range> pieces;
  for (int64_t begin = all.begin; begin < all.end; begin += longest)
    pieces.push_back({begin, std::min(begin + longest, all.end)});
  return pieces;
}

/// The pieces of each block of a sample.
std::vector<Range> cut_in_blocks(int64_t length, int64_t blocks, int64_t longest) {
  std::vector<Range> pieces;
  for (int block = 0; block < blocks; ++block)
    for (const Range& piece : cut(balanced_range(length, static_cast<int>(blocks), block), longest))
      pieces.push_back(piece);
  return pieces;
}

std::vector<PieceOfRun> pieces_of_runs(const TokenRows& rows, int worker, const AttentionOptions& options) {
  const int64_t longest = options.mask || options.drops() ? kTileLength : std::max<int64_t>(1, rows.size());
  std::vector<PieceOfRun> pieces;
  int64_t row = 0;
  for (const Run& run : rows.runs(worker)) {
    const bool is_free = !options.in_order();
    const std::vector<Range> all =
        is_free ? cut(run.tokens, longest)
                : cut_in_blocks(rows.lengths()[static_cast<size_t>(run.sample)], options.blocks, longest);
    const int64_t begin = row;
    for (int64_t i = 0; i < std::ssize(all); ++i) {
      const Range& piece = all[static_cast<size_t>(i)];
      if (piece.begin < run.tokens.begin || piece.end > run.tokens.end) continue;
      pieces.push_back({{run.sample, piece}, row, i, std::ssize(all)});
      row += piece.size();
    }
    require(row - begin == run.tokens.size(), [&] {
      return "attention in a fixed order: expected whole blocks of " + std::to_string(options.blocks) +
             " a sample on each worker, got " + rows.to_string();
    });
  }
  return pieces;
}

}  // namespace

std::vector<Tile> tiles_of(const TokenRows& rows, int query_worker, int key_worker, const AttentionOptions& options) {
  const std::vector<PieceOfRun> keys = pieces_of_runs(rows, key_worker, options);
  std::vector<Tile> tiles;
  for (const PieceOfRun& q : pieces_of_runs(rows, query_worker, options))
    for (const PieceOfRun& k : keys) {
      // Each token is in one run, and runs are cut alike: two pieces of a sample are either equal or disjoint.
      if (q.run.sample != k.run.sample || (options.causal && k.run.tokens.begin > q.run.tokens.begin)) continue;
      tiles.push_back({q.run.sample, q.run.tokens, k.run.tokens, q.row, k.row, q.number, k.number, q.count,
                       options.causal && q.run == k.run});
    }
  return tiles;
}

at::Tensor hidden_in(const Tile& tile, const AttentionOptions& options) {
  const std::vector<int64_t> shape{tile.queries.size(), tile.keys.size()};
  at::Tensor hidden = options.mask ? options.mask(tile.sample, tile.queries, tile.keys) : at::Tensor();
  require(!hidden.defined() || (hidden.scalar_type() == at::kBool && hidden.sizes() == at::IntArrayRef(shape)), [&] {
    return "attention: expected a mask function that returns Bool and shape " + shape_text(shape) + ", got " +
           c10::toString(hidden.scalar_type()) + " and " + shape_text(hidden.sizes().vec());
  });
  if (!tile.diagonal) return hidden;
  const at::Tensor later = at::ones(shape, at::kBool).triu(1);
  return hidden.defined() ? hidden.logical_or(later) : later;
}

std::function<MaskRow(int64_t r)> words_of(const Tile& tile, int64_t head, int64_t heads,
                                           const AttentionOptions& options) {
  return attention_words(options.name, heads,
                         {.sample = options.step.first_sample + tile.sample,
                          .queries = tile.queries,
                          .first_key = tile.keys.begin,
                          .first_head = options.first_head + head},
                         options.step);
}

at::Tensor drop_in(const Tile& tile, const at::Tensor& probabilities, const AttentionOptions& options) {
  return dropout_rows(probabilities, options.dropout, words_of(tile, 0, probabilities.size(0), options));
}

at::ScalarType partial_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void merge(const PartialAttention& sum, const PartialAttention& more, const AttentionOptions& options) {
  const auto add = [](at::Tensor out, const std::vector<at::Tensor>& x) { at::logaddexp_out(out, x[0], x[1]); };
  const at::Tensor log_sum =
      options.in_order() ? fixed::elementwise({sum.log_sum.flatten(), more.log_sum.flatten()}, add).view_as(sum.log_sum)
                         : at::logaddexp(sum.log_sum, more.log_sum);
  const at::Tensor shift = log_sum.masked_fill(log_sum == -kInfinity, 0);  // 0 instead of NaN where both hide all
  const auto weight = [&](const PartialAttention& partial) { return (partial.log_sum - shift).exp_().unsqueeze(-1); };
  at::Tensor out = sum.out;
  out.mul_(weight(sum)).addcmul_(more.out, weight(more));
  sum.log_sum.copy_(log_sum);
}

at::Tensor sum_of_shared(const at::Tensor& x, int64_t dim, bool in_order) {
  if (x.size(dim) == 1 || !in_order) return x.size(dim) == 1 ? x.squeeze(dim) : x.sum(dim);
  at::Tensor sum = x.select(dim, 0).clone();
  for (int64_t i = 1; i < x.size(dim); ++i) sum.add_(x.select(dim, i));
  return sum;
}

void assign(const PartialAttention& sum, const PartialAttention& other) {
  sum.out.copy_(other.out);
  sum.log_sum.copy_(other.log_sum);
}

PartialAttention uninitialised_partial(const at::Tensor& q) {
  const auto options = q.options().dtype(partial_type(q)).requires_grad(false);
  return {at::empty(q.sizes(), options), at::empty({q.size(0), q.size(1)}, options)};
}

namespace {

// LibTorch's fused kernel, in float32 or float64. For 16-bit numbers it would take half as long again, as it widens each block
// of them anew and oneDNN creates a primitive for each small product. The kernel's batch is the query heads that share one key
// head; if that is one, no tensor is copied. Pitfalls: for a row whose keys are all hidden it returns the logarithm 0, and for
// a NaN query a number; it requires tensors with elements, and masks of q's type.

/// [n, heads, *] -> [heads / h, h, n, *]
at::Tensor batched(const at::Tensor& x, int64_t h) {
  std::vector<int64_t> dims{2, 1, 0};
  if (x.dim() == 3) dims.push_back(3);
  return x.unflatten(1, {h, x.size(1) / h}).permute(dims);
}
at::Tensor unbatched(const at::Tensor& x) {
  std::vector<int64_t> dims{2, 1, 0};
  if (x.dim() == 4) dims.push_back(3);
  return x.permute(dims).flatten(1, 2);
}

struct FusedArguments {
  at::Tensor q, k, v, hidden;
  std::optional<at::Tensor> mask;
  bool causal;
};

FusedArguments fused_arguments(const TileInputs& x, const Tile& tile, const AttentionOptions& options) {
  const int64_t h = x.k.size(1), batch = x.q.size(1) / h;
  const auto shared = [&](const at::Tensor& t) {
    return t.to(partial_type(t)).transpose(0, 1).unsqueeze(0).expand({batch, h, t.size(0), t.size(2)});
  };
  FusedArguments a{batched(x.q.to(partial_type(x.q)), h), shared(x.k), shared(x.v), at::Tensor(), {}, tile.diagonal};
  // The kernel hides later keys before it scales, so a scale that is not positive would turn -infinity around.
  if (!options.mask && !(a.causal && *options.scale <= 0)) return a;
  a.hidden = hidden_in(tile, options);
  a.causal = false;
  if (a.hidden.defined()) a.mask = at::zeros(a.hidden.sizes(), a.q.options()).masked_fill_(a.hidden, -kInfinity);
  return a;
}

/// Sets NaN for queries that are NaN, or for all queries if a key is NaN.
void set_unknown(const PartialAttention& partial, const TileInputs& x) {
  const bool keys_are_numbers = x.k.isfinite().all().item<bool>();
  const at::Tensor unknown =
      keys_are_numbers ? x.q.isfinite().all(-1).logical_not() : at::ones_like(partial.log_sum, at::kBool);
  partial.log_sum.masked_fill_(unknown, std::numeric_limits<double>::quiet_NaN());
  partial.out.masked_fill_(unknown.unsqueeze(-1), std::numeric_limits<double>::quiet_NaN());
}

PartialAttention attend_fused(const TileInputs& x, const Tile& tile, const AttentionOptions& options) {
  const FusedArguments a = fused_arguments(x, tile, options);
  const auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(a.q, a.k, a.v, /*dropout_p=*/0.0,
                                                                              a.causal, a.mask, options.scale);
  PartialAttention partial{unbatched(out), unbatched(log_sum)};
  if (a.hidden.defined()) {
    const at::Tensor rows = a.hidden.all(-1).unsqueeze(-1);
    partial.log_sum = partial.log_sum.masked_fill(rows, -kInfinity);
    partial.out = partial.out.masked_fill(rows.unsqueeze(-1), 0);
  }
  if (!x.finite) set_unknown(partial, x);
  return partial;
}

TileInputs attend_fused_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                                 const AttentionOptions& options) {
  const FusedArguments a = fused_arguments(x, tile, options);
  const int64_t h = x.k.size(1);
  const auto precise = [&](const at::Tensor& t) { return batched(t.to(a.q.scalar_type()), h); };
  const auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      precise(y.gradient), a.q, a.k, a.v, precise(y.out), batched(y.log_sum, h), /*dropout_p=*/0.0, a.causal, a.mask,
      options.scale);
  const auto of_shared = [&](const at::Tensor& t) { return sum_of_shared(t, 0, options.in_order()).transpose(0, 1); };
  return {unbatched(q), of_shared(k), of_shared(v)};
}

}  // namespace

PartialAttention attend(const TileInputs& x, const Tile& tile, const AttentionOptions& options) {
  if (!x.q.is_cpu()) return attend_composed(x, tile, options);
  return options.drops() ? attend_dropped(x, tile, options) : attend_fused(x, tile, options);
}

TileInputs attend_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                           const AttentionOptions& options) {
  if (!x.q.is_cpu()) return attend_composed_backward(x, y, tile, options);
  return options.drops() ? attend_dropped_backward(x, y, tile, options) : attend_fused_backward(x, y, tile, options);
}

}  // namespace adjoin::nn
