#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/train/bench/benches.hpp"

namespace adjoin::train {
namespace {

using Attend = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

/// Attention on random queries, keys and values.
Pass pass_of_attention(const Attend& attend, at::IntArrayRef shape) {
  const at::Tensor q = at::randn(shape).requires_grad_(), k = at::randn(shape).requires_grad_();
  const at::Tensor v = at::randn(shape).requires_grad_(), gradient = at::randn(shape);
  const auto result = std::make_shared<at::Tensor>();
  return {[=] { *result = attend(q, k, v); }, [=] { torch::autograd::grad({*result}, {q, k, v}, {gradient}); }};
}

Pass pass_of_method(const BenchAttentionOptions& options, const Communicator& world) {
  const Rows rows =
      options.causal ? Rows::zigzag({options.length}, world.size()) : Rows::balanced({options.length}, world.size());
  const nn::AttentionOptions how{.method = *options.method,
                                 .causal = options.causal,
                                 .dropout = options.dropout,
                                 .name = "bench",
                                 .step = {.training = true}};
  const Attend attend = [=](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return nn::attention(q, k, v, rows, world, how);
  };
  return pass_of_attention(attend, {rows.size(world.rank()), options.heads, options.size});
}

Pass pass_of_libtorch(const BenchAttentionOptions& options) {
  const Attend attend = [causal = options.causal](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return at::scaled_dot_product_attention(q, k, v, {}, /*dropout_p=*/0.0, causal);
  };
  return pass_of_attention(attend, {1, options.heads, options.length, options.size});
}

}  // namespace

Comparison bench_attention(const BenchAttentionOptions& options) {
  require(options.length >= 1 && options.heads >= 1 && options.size >= 1,
          "bench attention: expected at least one row, one head and one feature");
  require(options.method || (options.run.workers.grid.dp == 1 && options.dropout == 0),
          "bench attention: expected one worker and no dropout for LibTorch's own");
  const auto pass = [](const BenchAttentionOptions& asked) {
    return [asked](const Communicator& world) {
      return asked.method ? pass_of_method(asked, world) : pass_of_libtorch(asked);
    };
  };
  BenchAttentionOptions local = options, plain = options;
  local.method = {};
  plain.causal = false;
  plain.dropout = 0;
  std::vector<Entrant> entrants{{"attention", pass(options)}, {"one worker, all threads", pass(local), true}};
  if (options.causal || options.dropout > 0) entrants.push_back({"neither causal nor dropped", pass(plain)});
  return side_by_side(options.run, {entrants}).front();
}

}  // namespace adjoin::train
