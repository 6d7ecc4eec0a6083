#include "adjoin/nn/layer_norm.hpp"

#include <ATen/ops/layer_norm.h>

namespace adjoin::nn {

ReplicatedLayerNormImpl::ReplicatedLayerNormImpl(int64_t features, const Grid& grid, const std::string& axis,
                                                 const at::TensorOptions& options, bool split_rows, double epsilon)
    : features_(features), epsilon_(epsilon) {
  const Layout layout = split_rows ? copied_on(grid.shape(), {features}) : along(grid, axis, {features});
  weight_ = register_piece("weight", {layout, grid, Initial::ones()}, options);
  bias_ = register_piece("bias", {layout, grid, Initial::zeros()}, options);
}

at::Tensor ReplicatedLayerNormImpl::forward(const at::Tensor& x) {
  return at::layer_norm(x, {features_}, weight_, bias_, epsilon_);
}

}  // namespace adjoin::nn
