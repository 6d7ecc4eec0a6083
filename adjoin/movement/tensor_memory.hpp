#pragma once

namespace adjoin {

/// Gives tensors, from here on, memory that the processes of a host share where they do, else what malloc gives, where LibTorch
/// asks for aligned memory: that the C library cuts out of a larger piece, and the hole that the tensor leaves is too small for the
/// next of its size. So a process that frees nothing to the system grows as long as tensors have other sizes each step, to several
/// times what they take.
///
/// A launch calls it where processes share memory, in every program that links adjoin.
void use_tensor_memory();

}  // namespace adjoin
