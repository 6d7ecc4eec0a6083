#include "adjoin/nn/norm.hpp"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>

#include <utility>

#include "adjoin/nn/fixed/layers.hpp"

namespace adjoin::nn {

ReplicatedNormImpl::ReplicatedNormImpl(NormOptions options, const Grid& grid, const std::string& axis)
    : options_(std::move(options)), of_rows_(options_.split_rows ? grid.axis(axis) : Communicator()) {
  const Layout layout = options_.split_rows ? layout_copied_on(grid.shape(), {options_.features})
                                            : layout_cut_along(grid, axis, {options_.features});
  weight_ = register_piece("weight", {layout, grid, Initial::ones()}, options_.tensor);
  if (options_.kind == NormOptions::Kind::layer)
    bias_ = register_piece("bias", {layout, grid, Initial::zeros()}, options_.tensor);
}

at::Tensor ReplicatedNormImpl::forward(const at::Tensor& x) {
  const int64_t features = options_.features;
  if (const auto order = FixedOrder::current()) {
    const bool is_rms = options_.kind == NormOptions::Kind::rms;
    const at::Tensor normed = is_rms ? at::rms_norm(x, {features}, {}, options_.epsilon)
                                     : at::layer_norm(x, {features}, {}, {}, options_.epsilon);
    return fixed::scaled(order, normed, weight_, bias_, of_rows_);
  }
  if (options_.kind == NormOptions::Kind::rms) return at::rms_norm(x, {features}, weight_, options_.epsilon);
  return at::layer_norm(x, {features}, weight_, bias_, options_.epsilon);
}

}  // namespace adjoin::nn
