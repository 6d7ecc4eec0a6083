#include "adjoin/nn/sequence/dot_product_attention.hpp"

#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/matmul.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::nn {
namespace {

constexpr const char* kDotProductName = "DistributedDotProductAttention";

DotProductAttentionOptions completed(DotProductAttentionOptions options) {
  if (!options.value_dim) options.value_dim = options.key_dim;
  if (!options.query_dim) options.query_dim = options.key_dim;
  const auto check = [](const char* name, int64_t number) {
    require(number >= 1, [&] {
      return std::string(kDotProductName) + ": expected " + name + " of at least 1, got " + std::to_string(number);
    });
  };
  check("key_dim", options.key_dim);
  check("value_dim", *options.value_dim);
  check("query_dim", *options.query_dim);
  check("num_heads", options.num_heads);
  check("chunk", options.chunk.value_or(1));
  require(options.key_dim % options.num_heads == 0 && *options.value_dim % options.num_heads == 0, [&] {
    return std::string(kDotProductName) + ": expected heads that divide key_dim and value_dim, got " +
           std::to_string(options.num_heads) + " for " + std::to_string(options.key_dim) + " and " +
           std::to_string(*options.value_dim);
  });
  return options;
}

/// [*, rows, features] -> [*, heads, rows, features / heads]
at::Tensor by_heads(const at::Tensor& x, int64_t heads) {
  return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(-2, -3);
}

}  // namespace

DistributedDotProductAttentionImpl::DistributedDotProductAttentionImpl(const DotProductAttentionOptions& o,
                                                                       const Grid& grid, const std::string& axis)
    : options(completed(o)), group_(options.distributed ? grid.axis(axis) : Communicator()) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, ParallelLinear(ParallelLinearOptions{.in_features = in,
                                                                      .out_features = out,
                                                                      .bias = options.add_bias,
                                                                      .split_rows = true,
                                                                      .tensor = options.tensor},
                                                grid, axis));
  };
  keys_ = linear("keys", options.key_dim, options.key_dim);
  queries_ = linear("queries", *options.query_dim, options.key_dim);
  values_ = linear("values", *options.value_dim, *options.value_dim);
  composition_ = linear("composition", *options.value_dim, *options.value_dim);
}

at::Tensor DistributedDotProductAttentionImpl::forward(const at::Tensor& keys, const at::Tensor& queries,
                                                       const at::Tensor& values, const at::Tensor& mask,
                                                       const Split& rows) {
  check(keys, queries, values, mask, rows);
  const int64_t heads = options.num_heads;
  const at::Tensor k = by_heads(keys_(keys), heads), q = by_heads(queries_(queries), heads),
                   v = by_heads(values_(values), heads);
  const double scale = 1 / std::sqrt(static_cast<double>(options.key_dim / heads));
  at::Tensor scores = linalg::matmul_nt(k * scale, q, group_, rows, options.chunk);
  at::Tensor hidden_rows;
  if (mask.defined()) {
    const at::Tensor hidden = (mask.dim() > keys.dim() ? mask.squeeze(0) : mask).unsqueeze(-3);  // equal for all heads
    // If all scores of a row are hidden, its softmax and its gradient would be NaN: so its scores are kept, and its output is
    // set to 0.
    hidden_rows = hidden.all(-1, /*keepdim=*/true);
    scores =
        scores.masked_fill(hidden.logical_and(hidden_rows.logical_not()), -std::numeric_limits<double>::infinity());
  }
  at::Tensor y = linalg::matmul_nn(at::softmax(scores, -1), v, group_, rows, options.chunk);
  if (mask.defined()) y = y.masked_fill(hidden_rows, 0);
  return composition_(y.transpose(-2, -3).flatten(-2));
}

void DistributedDotProductAttentionImpl::check(const at::Tensor& keys, const at::Tensor& queries,
                                               const at::Tensor& values, const at::Tensor& mask,
                                               const Split& rows) const {
  require(rows.parts() == group_.size(), [&] {
    return std::string(kDotProductName) + ": expected a split of the rows into " + std::to_string(group_.size()) +
           " parts, one for each worker, got " + rows.to_string();
  });
  const std::string who = std::string(kDotProductName) + ": rank " + std::to_string(group_.rank()) + ": ";
  require(keys.defined() && keys.dim() >= 2, [&] { return who + "expected keys of at least 2 dims"; });
  std::vector<int64_t> shape = keys.sizes().vec();
  shape[shape.size() - 2] = rows.size(group_.rank());
  const auto check_shape = [&](const char* name, const at::Tensor& x, int64_t features) {
    shape.back() = features;
    require(x.defined() && x.sizes() == at::IntArrayRef(shape), [&] {
      return who + "expected " + name + " of shape " + shape_text(shape) + ", got " +
             (x.defined() ? shape_text(x.sizes().vec()) : "none") + "; the rows are " + rows.to_string();
    });
  };
  check_shape("keys", keys, options.key_dim);
  check_shape("queries", queries, *options.query_dim);
  check_shape("values", values, *options.value_dim);
  if (!mask.defined()) return;
  shape.back() = rows.size();
  const std::vector<int64_t> alike{1, shape[shape.size() - 2], shape.back()};
  require(mask.scalar_type() == at::kBool &&
              (mask.sizes() == at::IntArrayRef(alike) || mask.sizes() == at::IntArrayRef(shape)),
          [&] {
            return who + "expected a mask of Bool and shape " + shape_text(alike) +
                   (shape == alike ? "" : " or " + shape_text(shape)) + ", got " + c10::toString(mask.scalar_type()) +
                   " and " + shape_text(mask.sizes().vec());
          });
}

}  // namespace adjoin::nn
