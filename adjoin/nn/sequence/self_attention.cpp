#include "adjoin/nn/sequence/self_attention.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/recompute.hpp"
#include "adjoin/nn/sequence/attention.hpp"

namespace adjoin::nn {
namespace {

SelfAttentionOptions checked(SelfAttentionOptions options) {
  const bool has_size = options.head_size >= 1;
  require(options.heads >= 1 && options.hidden >= 1 && (has_size || options.hidden % options.heads == 0), [&] {
    return "ParallelSelfAttention: expected a hidden size that the heads divide, got hidden " +
           std::to_string(options.hidden) + " and " + std::to_string(options.heads) + " heads";
  });
  if (!has_size) options.head_size = options.hidden / options.heads;
  if (options.key_heads == 0) options.key_heads = options.heads;
  require(options.key_heads >= 1 && options.heads % options.key_heads == 0, [&] {
    return "ParallelSelfAttention: expected a number of key heads that divides the " + std::to_string(options.heads) +
           " query heads, got " + std::to_string(options.key_heads);
  });
  require(!options.rotary || (options.rotary->base > 0 && options.head_size % 2 == 0), [&] {
    return "ParallelSelfAttention: expected an even head size for rotary positions, and a base above 0, got " +
           std::to_string(options.head_size) + " and " + std::to_string(options.rotary->base);
  });
  if (!options.scale) options.scale = 1 / std::sqrt(static_cast<double>(options.head_size));
  return options;
}

/// Throws where the rows of the pass are not the next tokens after those in the cache.
void check_cached(const SelfAttentionOptions& options, const ForwardPass& pass, const KeyValueCache& cache) {
  const std::string who = "ParallelSelfAttention: ";
  require(options.causal && !pass.step.training, who + "a cache works only with a causal layer and outside training");
  const auto runs = pass.rows.all().runs(pass.rows.index());
  require(runs.size() == 1 && runs[0].tokens.begin == cache.tokens(), [&] {
    return who + "expected rows of one sample that begin at token " + std::to_string(cache.tokens()) + ", got " +
           pass.rows.all().to_string();
  });
}

}  // namespace

ParallelSelfAttentionImpl::ParallelSelfAttentionImpl(SelfAttentionOptions options, const Grid& grid,
                                                     const std::string& axis)
    : options_(checked(std::move(options))),
      key_heads_(fixed::cut_features(options_.key_heads, grid.shape().axis_size(axis), 0)),
      rank_(grid.coordinate(axis)),
      of_rows_(options_.rows_axis.empty() ? Communicator() : grid.axis(options_.rows_axis)) {
  const int64_t hidden = options_.hidden, size = options_.head_size;
  const int64_t each = options_.heads / options_.key_heads;
  const auto of_heads = [](int64_t heads, int64_t unit) {
    return [=](int parts) { return fixed::cut_features(heads * unit, parts, 0, unit); };
  };
  const auto features = of_heads(options_.key_heads, each * size), keys = of_heads(options_.key_heads, size);
  const auto qkv = [=](int parts) { return stacked({features(parts), keys(parts), keys(parts)}); };
  using Cut = ParallelLinearOptions::Cut;
  const auto linear = [&](const char* name, Cut cut, int64_t in, int64_t out, bool bias,
                          const std::function<Split(int parts)>& split, std::vector<int64_t> matrices) {
    return register_module(name, ParallelLinear(ParallelLinearOptions{.in_features = in,
                                                                      .out_features = out,
                                                                      .cut = cut,
                                                                      .bias = bias,
                                                                      .deviation = options_.deviation,
                                                                      .split = split,
                                                                      .matrices = std::move(matrices),
                                                                      .split_rows = options_.split_rows,
                                                                      .tensor = options_.tensor},
                                                grid, axis));
  };
  const int64_t of_q = options_.heads * size, of_k = options_.key_heads * size;
  qkv_ = linear("qkv", Cut::outputs, hidden, of_q + 2 * of_k, options_.qkv_bias, qkv, {of_q, of_k, of_k});
  out_ = linear("out", Cut::inputs, of_q, hidden, options_.out_bias, features, {hidden});
}

at::Tensor ParallelSelfAttentionImpl::forward(const at::Tensor& x, const ForwardPass& pass, KeyValueCache* cache) {
  require(bool(pass.rows),
          "ParallelSelfAttention: expected pass.rows, which gives the sample and token of each row, got none");
  const int64_t key_heads = key_heads_.size(rank_), heads = options_.heads / options_.key_heads * key_heads;
  const at::Tensor made = qkv_(x, pass.rows);
  if (heads == 0) return out_(made);  // without features, but still part of the graph
  const at::Tensor qkv = made.view({made.size(0), heads + 2 * key_heads, options_.head_size});
  std::vector<at::Tensor> parts = qkv.split_with_sizes({heads, key_heads, key_heads}, 1);
  if (options_.rotary) {
    const at::Tensor turned = rotary(qkv.narrow(1, 0, heads + key_heads), pass.rows, *options_.rotary);
    parts[0] = turned.narrow(1, 0, heads);
    parts[1] = turned.narrow(1, heads, key_heads);
  }
  return out_(attend(parts[0], parts[1], parts[2], pass, cache).flatten(1, 2));
}

at::Tensor ParallelSelfAttentionImpl::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                             const ForwardPass& pass, KeyValueCache* cache) const {
  if (cache) {
    check_cached(options_, pass, *cache);
    cache->append(k, v);
    if (cache->tokens() > q.size(0)) return cache->attend(q, *options_.scale);
  }
  const int64_t each = options_.heads / options_.key_heads;
  const auto core = [rows = cache ? pass.rows.all().on_one_worker() : pass.rows.all(), group = of_rows_,
                     options = AttentionOptions{.method = options_.method,
                                                .scale = options_.scale,
                                                .causal = options_.causal,
                                                .dropout = options_.dropout,
                                                .name = options_.name,
                                                .first_head = each * key_heads_.offset(rank_),
                                                .step = pass.step}](const std::vector<at::Tensor>& inputs) {
    return attention(inputs[0], inputs[1], inputs[2], rows, group, options);
  };
  return options_.recompute ? recomputed(core, {q, k, v}) : core({q, k, v});
}

}  // namespace adjoin::nn
