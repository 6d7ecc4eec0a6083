#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {

/// Reads this worker's piece of a global tensor in a file into the piece's tensor. Runs of the piece are read alone if they are
/// long or far apart, else together with what is between them (less than 64 KiB). Returns the checksum() of the elements that
/// share_of gives this worker.
/// Throws: DamagedFile
uint64_t read_piece(const SafetensorsFile& file, const nn::Parameter& piece);

/// A tensor that is stored as several tensors in files; it has the rows of these, one after another. The rows of a tensor that
/// is transposed in its file are columns there.
struct StackedTensor {
  struct Part {
    std::shared_ptr<const SafetensorsFile> file;
    std::string name;
    bool is_transposed = false;
    std::vector<int64_t> shape() const;  ///< by its rows here, not as in the file
    at::ScalarType dtype() const { return file->dtype(name); }
  };
  std::vector<Part> parts;

  /// Throws: InvalidArgument where the parts differ in more than their number of rows
  std::vector<int64_t> shape() const;
  /// The type to which LibTorch promotes those of the parts, so that it holds all their numbers.
  at::ScalarType dtype() const;
};

/// Reads this worker's piece of such a tensor. Needs memory for a whole part where one is transposed, and for the piece where
/// the file has another type.
/// Throws: DamagedFile
void read_piece(const StackedTensor& stacked, const nn::Parameter& piece);
/// The whole tensor.
at::Tensor read(const StackedTensor& stacked);

}  // namespace adjoin::train
