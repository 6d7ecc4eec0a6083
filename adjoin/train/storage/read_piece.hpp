#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {

/// Reads this worker's piece of a global tensor in a file into the piece's tensor: runs of it by themselves where they are long or
/// far apart, together with what is between them where that is less than 64 KiB. Returns the checksum() of the elements that
/// share_of gives this worker.
/// Throws: DamagedFile
uint64_t read_piece(const SafetensorsFile& file, const nn::Parameter& piece);

/// A tensor in files that hold others: the rows of these, one behind another. One that is transposed in its file has its rows
/// there as columns.
struct StackedTensor {
  struct Part {
    std::shared_ptr<const SafetensorsFile> file;
    std::string name;
    bool is_transposed = false;
    std::vector<int64_t> shape() const;  ///< as the rows have it, not the file
  };
  std::vector<Part> parts;  // of one type

  /// Throws: InvalidArgument where the parts differ in more than their rows
  std::vector<int64_t> shape() const;
  at::ScalarType dtype() const { return parts.front().file->dtype(parts.front().name); }
};

/// Reads this worker's piece of such a tensor. Needs room for a whole part where one is transposed.
/// Throws: DamagedFile
void read_piece(const StackedTensor& stacked, const nn::Parameter& piece);
/// All of it.
at::Tensor read(const StackedTensor& stacked);

}  // namespace adjoin::train
