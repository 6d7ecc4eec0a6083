#include "adjoin/nn/layer_norm.hpp"

#include <ATen/ops/layer_norm.h>

namespace adjoin::nn {

ReplicatedLayerNormImpl::ReplicatedLayerNormImpl(int64_t features, const Grid& grid, const std::string& axis,
                                                 const at::TensorOptions& options, double epsilon)
    : features_(features), epsilon_(epsilon) {
  weight_ = register_piece("weight", {along(grid, axis, {features}), grid, Initial::ones()}, options);
  bias_ = register_piece("bias", {along(grid, axis, {features}), grid, Initial::zeros()}, options);
}

at::Tensor ReplicatedLayerNormImpl::forward(const at::Tensor& x) {
  return at::layer_norm(x, {features_}, weight_, bias_, epsilon_);
}

}  // namespace adjoin::nn
