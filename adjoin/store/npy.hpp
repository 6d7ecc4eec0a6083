#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

namespace adjoin::train {

/// Reads a tensor from a file of NumPy's format .npy, of which versions 1 to 3 are read: numbers and booleans in this machine's byte
/// order, in C or in Fortran order.
/// Throws: InvalidArgument in one line, before anything of a size that the header claims is allocated
at::Tensor read_npy(const std::filesystem::path& path);

/// Writes a tensor, with bfloat16 as float32. Throws: IoError
void write_npy(const std::filesystem::path& path, const at::Tensor& tensor);

}  // namespace adjoin::train
