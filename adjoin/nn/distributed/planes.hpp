#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace adjoin::nn {

/// Mean and variance (divided by all elements) of each plane of x. Shape: [n, planes, elements] -> [n, planes] each, in
/// float32 for types of 16 bits. Cost: one pass
std::pair<at::Tensor, at::Tensor> moments_of_planes(const at::Tensor& x);

/// (x - mean) * of_x + y * of_y + rest. Shape: [n, planes, elements], and [planes] of each number. Cost: one pass
at::Tensor combine_planes(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& of_x, const at::Tensor& y,
                          const at::Tensor& of_y, const at::Tensor& rest);

}  // namespace adjoin::nn
