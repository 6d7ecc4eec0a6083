#include "adjoin/nn/cross_entropy.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>

namespace adjoin::nn {

at::Tensor cross_entropy(const at::Tensor& scores, const at::Tensor& labels, int64_t global_samples) {
  const at::Tensor precise = scores.scalar_type() == at::kDouble ? scores : scores.to(at::kFloat);
  return at::cross_entropy_loss(precise, labels, /*weight=*/{}, at::Reduction::Sum) /
         static_cast<double>(global_samples);
}

}  // namespace adjoin::nn
