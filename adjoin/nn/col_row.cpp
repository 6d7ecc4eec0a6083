#include "adjoin/nn/col_row.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

namespace adjoin::nn {

at::Tensor activated(const at::Tensor& x, Activation activation) {
  if (activation == Activation::none) return x;
  if (activation == Activation::gelu) return at::gelu(x);
  if (activation == Activation::gelu_tanh) return at::gelu(x, "tanh");
  if (activation == Activation::tanh) return x.tanh();
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

ColRowImpl::ColRowImpl(ColRowOptions options, const Grid& grid, const std::string& axis)
    : options_(std::move(options)) {
  const Split hidden = Split::balanced(options_.hidden_features, grid.shape().axis_size(axis), 0);
  const Split made = options_.activation == Activation::swiglu ? stacked({hidden, hidden}) : hidden;
  const auto linear = [&](const char* name, ParallelLinearOptions::Cut cut, int64_t in, int64_t out,
                          const Split& split) {
    return register_module(name, ParallelLinear(ParallelLinearOptions{.in_features = in,
                                                                      .out_features = out,
                                                                      .cut = cut,
                                                                      .bias = options_.bias,
                                                                      .deviation = options_.deviation,
                                                                      .split = split,
                                                                      .split_rows = options_.split_rows,
                                                                      .tensor = options_.tensor},
                                                grid, axis));
  };
  using Cut = ParallelLinearOptions::Cut;
  column_ = linear("column", Cut::outputs, options_.in_features, made.size(), made);
  row_ = linear("row", Cut::inputs, options_.hidden_features, options_.out_features, hidden);
  place_ = {options_.name + ".dropout", hidden.offset(grid.axis(axis).rank())};
}

at::Tensor ColRowImpl::forward(const at::Tensor& x, const ForwardPass& pass) {
  return row_(dropout(activated(column_(x, pass.rows), options_.activation), options_.dropout, place_, pass));
}

ColRowOptions feed_forward(int64_t hidden, int64_t factor) {
  return {.in_features = hidden, .hidden_features = factor * hidden, .out_features = hidden, .bias = false};
}

}  // namespace adjoin::nn
