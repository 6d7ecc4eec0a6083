#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace adjoin::nn {

// Passes over x of [n, planes, elements], whose planes have numbers of their own, which are float64.

/// The mean of each plane, all n together, and the mean of the squares of the differences from it; zeros where there is no
/// element. Shape: [2, planes]. Cost: one pass
at::Tensor moments_of_planes(const at::Tensor& x);
/// The same of what several workers have: `moments` [workers, 2, planes], of counts[w] elements to a plane.
at::Tensor merged_moments(const at::Tensor& moments, const std::vector<int64_t>& counts);

/// The sums of dy, and of dy * (x - mean). Shape: [2, planes]. Cost: one pass
at::Tensor gradient_sums(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& mean);

/// (x - mean) * of_x + y * of_y + rest; without a y that is defined (x - mean) * of_x + rest. Shape: numbers [planes, 4] as
/// they are named. Cost: one pass
at::Tensor combine_planes(const at::Tensor& x, const at::Tensor& y, const at::Tensor& numbers);

}  // namespace adjoin::nn
