#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "adjoin/nn/dropout.hpp"

namespace adjoin::nn {

/// The mask of dropout that `words` draws for rows of a device, as the CPU draws it: which elements are kept. The host does not wait.
/// Shape: [rows, columns] of bool, on the device
/// Cost:  Philox by LibTorch's operations: about 50 kernels, each over a quarter as many numbers
at::Tensor device_mask(at::Device device, int64_t rows, int64_t columns, uint16_t threshold,
                       const std::function<MaskRow(int64_t)>& words);

}  // namespace adjoin::nn
