#include "adjoin/nn/col_row.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

namespace adjoin::nn {

ColRowImpl::ColRowImpl(ColRowOptions options, const Grid& grid, const std::string& axis)
    : options_(std::move(options)) {
  const Split hidden = Split::balanced(options_.hidden_features, grid.shape().axis_size(axis), 0);
  const Split made = options_.activation == Activation::swiglu ? stacked({hidden, hidden}) : hidden;
  column_ = register_module("column", ColumnParallelLinear(ParallelLinearOptions{.in_features = options_.in_features,
                                                                                 .out_features = made.size(),
                                                                                 .bias = options_.bias,
                                                                                 .deviation = options_.deviation,
                                                                                 .split = made,
                                                                                 .split_rows = options_.split_rows,
                                                                                 .tensor = options_.tensor},
                                                           grid, axis));
  row_ = register_module("row", RowParallelLinear(ParallelLinearOptions{.in_features = options_.hidden_features,
                                                                        .out_features = options_.out_features,
                                                                        .bias = options_.bias,
                                                                        .deviation = options_.deviation,
                                                                        .split_rows = options_.split_rows,
                                                                        .tensor = options_.tensor},
                                                  grid, axis));
  place_ = {options_.name + ".dropout", hidden.offset(grid.axis(axis).rank())};
}

at::Tensor ColRowImpl::forward(const at::Tensor& x, const ForwardPass& pass) {
  const at::Tensor made = column_(x, options_.split_rows ? std::optional(pass.rows.size()) : std::nullopt);
  return row_(dropout(activated(made), options_.dropout, place_, pass));
}

at::Tensor ColRowImpl::activated(const at::Tensor& x) const {
  if (options_.activation == Activation::none) return x;
  if (options_.activation == Activation::gelu) return at::gelu(x);
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

ColRowOptions feed_forward(int64_t hidden, int64_t factor) {
  return {.in_features = hidden, .hidden_features = factor * hidden, .out_features = hidden, .bias = false};
}

}  // namespace adjoin::nn
