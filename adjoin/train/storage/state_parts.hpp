#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {

/// What this worker writes of global tensors into their file: of its pieces, the parts that share_of gives, and the checksums of
/// all tensors, which the workers have counted together.
class StateParts {
 public:
  /// Called by all workers that hold pieces. With `copies` it is what the pieces hold now, else what they hold when it is written.
  StateParts(const std::vector<nn::Parameter>& pieces, const Communicator& workers, bool copies);

  /// Makes the file, with room for all tensors, by one worker. Throws: IoError
  void make_file(const std::filesystem::path& path, const Metadata& metadata) const;
  /// Writes this worker's parts into the file and waits for the disk, unless `stops` becomes true; on any thread, without
  /// communication. Throws: IoError
  void write(const std::filesystem::path& path, const std::atomic<bool>& stops) const;

 private:
  struct Part {
    nn::Parameter piece;  // of no more than its name, layout and grid
    Range range;          // of the piece
    at::Tensor values;    // flat, those of the range
  };
  std::vector<TensorEntry> entries_;
  std::vector<Part> parts_;
  Metadata sums_;
};

}  // namespace adjoin::train
