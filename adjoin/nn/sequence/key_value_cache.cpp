#include "adjoin/nn/sequence/key_value_cache.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <limits>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/nn/fixed/product.hpp"

namespace adjoin::nn {

namespace {

/// a b for each head. Shapes: [heads, m, k], [heads, k, n] -> [heads, m, n]
at::Tensor products_of_heads(const at::Tensor& a, const at::Tensor& b) {
  if (!FixedOrder::current()) return at::matmul(a, b);
  std::vector<at::Tensor> products;
  for (int64_t head = 0; head < a.size(0); ++head) products.push_back(fixed::product(a[head], b[head]));
  return at::stack(products);
}

}  // namespace

void KeyValueCache::append(const at::Tensor& k, const at::Tensor& v) {
  const at::NoGradGuard no_gradient;
  require(tokens_ + k.size(0) <= capacity_, [&] {
    return "KeyValueCache: expected at most " + std::to_string(capacity_) + " tokens, got " +
           std::to_string(tokens_ + k.size(0));
  });
  if (!keys_.defined()) {
    keys_ = at::empty({k.size(1), capacity_, k.size(2)}, k.options().requires_grad(false));
    values_ = at::empty({v.size(1), capacity_, v.size(2)}, v.options().requires_grad(false));
  }
  keys_.narrow(1, tokens_, k.size(0)).copy_(k.transpose(0, 1));
  values_.narrow(1, tokens_, v.size(0)).copy_(v.transpose(0, 1));
  tokens_ += k.size(0);
}

at::Tensor KeyValueCache::attend(const at::Tensor& q, double scale) const {
  const int64_t rows = q.size(0), h = keys_.size(0), each = q.size(1) / h;
  const at::Tensor keys = keys_.narrow(1, 0, tokens_), values = values_.narrow(1, 0, tokens_);
  // The queries of all heads that share keys are rows of one product.
  const at::Tensor queries = q.unflatten(1, {h, each}).permute({1, 2, 0, 3}).flatten(1, 2);
  at::Tensor scores = products_of_heads(queries, keys.transpose(1, 2)).unflatten(1, {each, rows}) * scale;
  if (rows > 1) {
    const at::Tensor later = at::ones({rows, tokens_}, at::kBool).triu(tokens_ - rows + 1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor y = products_of_heads(scores.softmax(-1).flatten(1, 2), values);
  return y.unflatten(1, {each, rows}).permute({2, 0, 1, 3}).flatten(1, 2);
}

}  // namespace adjoin::nn
