#pragma once

#include <ATen/core/Tensor.h>

namespace adjoin::nn {

/// This worker's share of the mean cross-entropy of a global batch: the sum over its own samples, divided by the
/// samples of all workers. Shares of workers that hold different samples add up to the exact mean, whatever their
/// counts.
/// Shape: scores [samples, classes], labels [samples] int64 -> scalar, in float32 or better
at::Tensor cross_entropy(const at::Tensor& scores, const at::Tensor& labels, int64_t global_samples);

}  // namespace adjoin::nn
