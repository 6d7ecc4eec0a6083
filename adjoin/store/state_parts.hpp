#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {

/// What this worker writes of global tensors into their file: the parts of its pieces that share_of gives. It also knows the
/// checksums of all tensors, which the workers have computed together.
class StateParts {
 public:
  /// All workers that hold pieces call it. With `copies` it copies what the pieces hold now; else it writes what they hold at
  /// the time of writing.
  StateParts(const std::vector<nn::Parameter>& pieces, const Communicator& workers, bool copies);

  /// The checksums of all tensors, as the file's metadata.
  const Metadata& sums() const { return sums_; }

  /// Makes the file, with room for all tensors. One worker calls it. Throws: IoError
  void make_file(const std::filesystem::path& path, const Metadata& metadata) const;
  /// Writes this worker's parts into the file and waits for the disk, unless `stops` becomes true. It may run on any thread and
  /// does not communicate. Throws: IoError
  void write(const std::filesystem::path& path, const std::atomic<bool>& stops) const;

 private:
  struct Part {
    nn::Parameter piece;  // only its name, layout and grid
    Range range;          // of the piece
    at::Tensor values;    // the values in the range, flat
  };
  std::vector<TensorEntry> entries_;
  std::vector<Part> parts_;
  Metadata sums_;
};

/// The hash of files of these pieces (hash_of_sums), as 16 hexadecimal digits, without writing them. All workers call it; each reads
/// its share of the numbers once.
std::string hash_of_state(const std::map<std::string, std::vector<nn::Parameter>>& files, const Communicator& workers);

}  // namespace adjoin::train
