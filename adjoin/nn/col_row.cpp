#include "adjoin/nn/col_row.hpp"

#include <ATen/ops/gelu.h>

namespace adjoin::nn {

ColRowImpl::ColRowImpl(ColRowOptions options, const Grid& grid, const std::string& axis)
    : options_(std::move(options)) {
  column_ =
      register_module("column", ColumnParallelLinear(ParallelLinearOptions{.in_features = options_.in_features,
                                                                           .out_features = options_.hidden_features,
                                                                           .bias = options_.bias,
                                                                           .deviation = options_.deviation,
                                                                           .tensor = options_.tensor},
                                                     grid, axis));
  row_ = register_module("row", RowParallelLinear(ParallelLinearOptions{.in_features = options_.hidden_features,
                                                                        .out_features = options_.out_features,
                                                                        .bias = options_.bias,
                                                                        .deviation = options_.deviation,
                                                                        .tensor = options_.tensor},
                                                  grid, axis));
  place_ = {options_.name + ".dropout", column_->split().offset(grid.axis(axis).rank())};
}

at::Tensor ColRowImpl::forward(const at::Tensor& x, const StepContext& context) {
  at::Tensor hidden = column_(x);
  if (options_.gelu) hidden = at::gelu(hidden);
  return row_(dropout(hidden, options_.dropout, place_, context));
}

ColRowOptions feed_forward(int64_t hidden, int64_t factor) {
  return {.in_features = hidden, .hidden_features = factor * hidden, .out_features = hidden, .bias = false};
}

}  // namespace adjoin::nn
