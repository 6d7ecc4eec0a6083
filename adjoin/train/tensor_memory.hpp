#pragma once

namespace adjoin::train {

/// From now on tensors of this process get their memory by malloc, where LibTorch asks for aligned memory: that the C library
/// cuts out of a larger piece, and the hole that the tensor leaves is too small for the next of its size. So a process that
/// frees nothing to the system grows as long as tensors have other sizes each step, to several times what they take.
void use_plain_tensor_memory();

}  // namespace adjoin::train
