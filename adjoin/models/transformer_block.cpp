#include "adjoin/models/transformer_block.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::models {

TransformerBlockImpl::TransformerBlockImpl(TransformerBlockOptions options, const Grid& grid, const std::string& axis)
    : hidden_(options.attention.hidden),
      heads_(options.attention.heads),
      is_rotary_(options.attention.rotary_base > 0),
      rows_(options.rows),
      group_(grid.axis(axis)),
      of_rows_(rows_.axis.empty() ? Communicator() : grid.axis(rows_.axis)),
      dropout_(options.dropout),
      after_attention_{options.name + ".attention.output", 0},
      after_feed_forward_{options.name + ".feed_forward.output", 0} {
  const int64_t hidden = options.attention.hidden;
  options.attention.name = options.name + ".attention";
  options.feed_forward.name = options.name + ".feed_forward";
  options.attention.tensor = options.feed_forward.tensor = options.tensor;
  options.attention.split_rows = options.feed_forward.split_rows = rows_.split;
  options.attention.rows_axis = rows_.axis;
  options.attention.method = rows_.method;
  options.attention.recompute = rows_.recompute_attention;
  norm1_ = register_module("norm1", nn::ReplicatedLayerNorm(hidden, grid, axis, options.tensor, rows_.split));
  attention_ = register_module("attention", nn::ParallelSelfAttention(options.attention, grid, axis));
  norm2_ = register_module("norm2", nn::ReplicatedLayerNorm(hidden, grid, axis, options.tensor, rows_.split));
  feed_forward_ = register_module("feed_forward", nn::ColRow(options.feed_forward, grid, axis));
}

at::Tensor TransformerBlockImpl::forward(at::Tensor x, const StepContext& context, nn::KeyValueCache* cache) {
  const StepContext here = context_between(rows_, group_, context);
  x = nn::add_dropped(x, attention_(norm1_(x), context, cache), dropout_, after_attention_, here);
  return nn::add_dropped(x, feed_forward_(norm2_(x), context), dropout_, after_feed_forward_, here);
}

Needs TransformerBlockImpl::needs(const Load& load) const {
  const auto weights = named_parameters();
  const auto size = [&](const char* name, int64_t dim) { return weights[name].size(dim); };
  const int64_t queries = size("attention.out.weight", 1), qkv = size("attention.qkv.weight", 0);
  const int64_t made = size("feed_forward.column.weight", 0), inner = size("feed_forward.row.weight", 1);
  const int64_t turned = is_rotary_ ? queries + (qkv - queries) / 2 : 0;  // copies of queries and keys
  const int64_t between = made == inner ? inner : 2 * inner;              // SwiGLU keeps silu(a) beside the product
  // Casts of weights wait for backward too; a layer of gathered rows casts its own again.
  int64_t casts = weights["attention.out.weight"].numel() + weights["feed_forward.row.weight"].numel();
  if (!rows_.split) casts += hidden_ * (qkv + made);
  if (load.product_bytes == load.bytes) casts = 0;
  Needs needs;
  // The inputs of both norms, their means and deviations, and what the first products read, of the rows between the layers;
  // what attention and the other products read, and attention's log-sums.
  const int64_t between_rows = rows_between(rows_, group_, load.rows);
  const int64_t log_sums = queries * heads_ / hidden_;
  needs.input = between_rows * hidden_ * load.bytes;
  needs.kept = between_rows * ((2 * hidden_ + 4) * load.bytes + 2 * hidden_ * load.product_bytes) +
               load.rows * (log_sums * load.bytes + (qkv + turned + queries + made + between) * load.product_bytes) +
               casts * load.product_bytes;
  // The gradient of one end of the activation after the other, and those of x and of the norm's output.
  needs.temporary = load.rows * made * load.product_bytes + between_rows * 2 * hidden_ * load.bytes;
  if (rows_.split) needs.temporary += load.rows * hidden_ * load.product_bytes;  // all ranks' x, or its gradient
  for (int layer = 0; layer < 2; ++layer) {
    add_column_calls(needs, rows_, group_, load, hidden_);
    add_row_calls(needs, rows_, group_, load, hidden_);
  }
  if (of_rows_.size() > 1 && queries > 0) add_attention(needs, load, queries, qkv - queries);
  return needs;
}

void TransformerBlockImpl::add_attention(Needs& needs, const Load& load, int64_t queries,
                                         int64_t keys_and_values) const {
  const int ranks = of_rows_.size(), rank = of_rows_.rank();
  const Rows& rows = *load.all;
  const int64_t sum_bytes = std::max<int64_t>(load.bytes, 4);
  const auto exchange = [&](std::vector<PlannedCall>& calls, int64_t bytes) {
    calls.push_back({std::nullopt, ranks, bytes});
  };
  if (rows_.method == nn::AttentionMethod::ring) {
    // Keys and values of all ranks but the next, whose own they are; backward again, and then all their gradients.
    for (int step = 0; step < ranks; ++step) {
      const int64_t numbers = rows.size((rank - step + ranks) % ranks) * keys_and_values;
      if (step + 1 < ranks) {
        exchange(needs.forward, numbers * load.product_bytes);
        exchange(needs.backward, numbers * load.product_bytes);
      }
      exchange(needs.backward, numbers * sum_bytes);
    }
  } else if (rows_.method == nn::AttentionMethod::ulysses) {
    const int64_t size = hidden_ / heads_, key_heads = keys_and_values / (2 * size), each = queries / size / key_heads;
    const int64_t here = Split::balanced(key_heads, ranks, 0).size(rank);
    // Other ranks' heads of the rows here, and this rank's of the other rows.
    const auto away = [&](int64_t e) { return load.rows * (key_heads - here) * e * size * load.product_bytes; };
    const auto back = [&](int64_t e) { return (rows.size() - load.rows) * here * e * size * load.product_bytes; };
    for (const int64_t e : {each, int64_t{1}, int64_t{1}}) {
      exchange(needs.forward, away(e));
      exchange(needs.backward, back(e));
    }
    exchange(needs.forward, back(each));
    exchange(needs.backward, away(each));
    // Queries, keys, values and the result are kept as they lie in between.
    needs.kept += (rows.size() * here - load.rows * key_heads) * (2 * each + 2) * size * load.product_bytes;
  } else {
    throw InvalidArgument("TransformerBlock: does not know what gathered attention needs");
  }
}

double cost_of(const TransformerBlockOptions& options) {
  const nn::SelfAttentionOptions& a = options.attention;
  const nn::ColRowOptions& f = options.feed_forward;
  const int64_t key_features = (a.key_heads == 0 ? a.heads : a.key_heads) * (a.hidden / a.heads);
  const int64_t attention = a.hidden * (2 * a.hidden + 2 * key_features);
  const int64_t made = f.activation == nn::Activation::swiglu ? 2 * f.hidden_features : f.hidden_features;
  const int64_t feed_forward = f.in_features * made + f.hidden_features * f.out_features;
  return 2.0 * static_cast<double>(attention + feed_forward);
}

}  // namespace adjoin::models
