#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace adjoin::train {

/// Tensors by their names, in which dim 0 counts the samples: "x", "y".
struct TensorSet {
  std::map<std::string, at::Tensor> tensors = {};
  std::string place = {};  ///< the file or the folder, for messages

  int64_t samples() const { return tensors.empty() ? 0 : tensors.begin()->second.size(0); }
  /// Those from sample `first` on; `count` at most.
  TensorSet part(int64_t first, int64_t count) const;
};

struct TensorParts {
  TensorSet train, test;
};

/// Reads a safetensors file; a NAME.npy, which is one tensor; or a folder of NAME.npy.
/// Throws: InvalidArgument where a file is no such file, or tensors have different numbers of samples
TensorSet read_tensors(const std::filesystem::path& path);

/// Both parts of some data: a folder with train.safetensors and test.safetensors, or with folders train and test of NAME.npy; of
/// what read_tensors reads, every tenth sample is for testing. `test`, if it is given, is all of the test part instead.
/// Throws: InvalidArgument as read_tensors, and for a folder without the test part
TensorParts read_tensor_parts(const std::string& data, const std::string& test);

/// The test part of a folder that has one, else all that read_tensors reads.
TensorSet read_test_tensors(const std::string& path);

}  // namespace adjoin::train
