#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace adjoin::nn::fixed {

/// Writes what an operation makes of some inputs into `out`; all are flat and of one length.
using Elementwise = std::function<void(at::Tensor out, const std::vector<at::Tensor>& inputs)>;

/// An elementwise operation of LibTorch in which an element has the same bits whichever others are there, and whatever the number
/// of threads. LibTorch computes the last elements of a range, as many as do not fill a vector register, by other code with other
/// roundings (gelu, silu, sigmoid, AdamW); here they are computed within a whole register, with zeros beside them.
///
/// Shapes: all inputs and the result alike. Cost: beside the operation's a copy of fewer than 64 elements
at::Tensor elementwise(const std::vector<at::Tensor>& inputs, const Elementwise& operation);

}  // namespace adjoin::nn::fixed
