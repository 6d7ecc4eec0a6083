#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace adjoin::example {

/// Reads a file of the IDX format, plain or compressed by gzip: an array of bytes, as MNIST's pictures and labels are.
/// Nothing is allocated on the header's word.
/// Shape:  the file's dims, uint8
/// Throws: InvalidArgument, in one line that names the file and what is wrong with it; IoError where it cannot be reached
/// Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits", section "The IDX file format"
at::Tensor load_idx(const std::string& path);

/// Pictures [n, height, width] and their labels [n], both of bytes.
struct LabelledPictures {
  at::Tensor pictures, labels;
};

/// The ten thousand digits of a folder: t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, plain or with .gz.
/// Throws: as load_idx, and InvalidArgument where a file is missing, or where there is not a label from 0 to 9 for each picture
LabelledPictures load_mnist(const std::string& folder);

}  // namespace adjoin::example
