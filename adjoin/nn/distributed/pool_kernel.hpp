#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/partition/window.hpp"

namespace adjoin::nn {

/// LibTorch's kernels over one worker's piece, with one window for each dim of space; the padding of the windows is ignored.
at::Tensor max_pool(const at::Tensor& x, const std::vector<Window>& windows);
/// The sums of windows without dilation; 16-bit numbers are summed in float32.
at::Tensor sum_pool(const at::Tensor& x, const std::vector<Window>& windows);

}  // namespace adjoin::nn
