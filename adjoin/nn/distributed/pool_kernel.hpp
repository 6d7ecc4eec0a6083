#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/partition/window.hpp"

namespace adjoin::nn {

/// LibTorch's kernels over one worker's piece, one window a dim of space; what the windows say of padding is left aside.
at::Tensor max_pool(const at::Tensor& x, const std::vector<Window>& windows);
/// The sums of windows without dilation; of 16-bit numbers in float32.
at::Tensor sum_pool(const at::Tensor& x, const std::vector<Window>& windows);

}  // namespace adjoin::nn
