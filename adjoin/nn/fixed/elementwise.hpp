#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace adjoin::nn::fixed {

/// Calls `work` for parts of flat tensors of one length that fill whole vector registers: LibTorch computes the last elements of a
/// range, as many as do not fill one, by other code with other roundings (gelu, silu, sigmoid, AdamW), so that an element's bits would
/// depend on where the range ends. Those are computed beside zeros; the first `written` tensors get what `work` makes of them.
/// Cost: beside the work's a copy of fewer than 64 elements of each
void in_registers(const std::vector<at::Tensor>& flat, size_t written,
                  const std::function<void(const std::vector<at::Tensor>& some)>& work);

/// Writes what an operation makes of some inputs into `out`; all are flat and of one length.
using Elementwise = std::function<void(at::Tensor out, const std::vector<at::Tensor>& inputs)>;

/// An elementwise operation of LibTorch in which an element has the same bits whichever others are there, and whatever the number
/// of threads: within whole vector registers.
///
/// Shapes: all inputs and the result alike. Cost: as in_registers
at::Tensor elementwise(const std::vector<at::Tensor>& inputs, const Elementwise& operation);

}  // namespace adjoin::nn::fixed
