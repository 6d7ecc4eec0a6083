#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace adjoin::nn {

// Passes over x [n, planes, elements], with numbers (float64) for each plane.

/// The mean of each plane, over all n, and the mean of the squared differences from it; zeros where there is no element. Shape:
/// [2, planes]. Cost: one pass
at::Tensor moments_of_planes(const at::Tensor& x);
/// The same for the planes of several workers: `moments` [workers, 2, planes], where worker w has counts[w] elements a plane.
at::Tensor merged_moments(const at::Tensor& moments, const std::vector<int64_t>& counts);

/// The sums of dy, and of dy * (x - mean). Shape: [2, planes]. Cost: one pass
at::Tensor gradient_sums(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& mean);

/// (x - mean) * of_x + y * of_y + rest; if y is undefined, (x - mean) * of_x + rest. Shape: numbers [planes, 4] holds mean,
/// of_x, of_y and rest. Cost: one pass
at::Tensor combine_planes(const at::Tensor& x, const at::Tensor& y, const at::Tensor& numbers);

}  // namespace adjoin::nn
