#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace adjoin::train {

/// The first number of metrics.jsonl in which two runs differ.
struct DifferentNumber {
  std::string kind, key;  // "step", "loss"
  int64_t step = 0;
  std::string first, second;  // as JSON; "none" where a run lacks it
};

/// The first element in which two tensors of the same name differ, in the order of names.
struct DifferentTensor {
  int64_t step = 0;  // of the checkpoint; 0 for files
  std::string file, name;
  std::vector<int64_t> index;
  std::string first, second;              // the shortest texts that read back as these values
  int64_t elements = 0, of_elements = 0;  // how many differ in this tensor
  int64_t tensors = 0, of_tensors = 0;    // how many differ in its checkpoint or file
};

/// What two runs, checkpoints or safetensors files have in common, and where they first differ.
struct Comparison {
  int64_t steps = 0, checkpoints = 0, tensors = 0;  // that were compared: those that both have
  int64_t alone = 0;  // lines of metrics.jsonl, checkpoints and models that one run has and the other lacks
  std::optional<DifferentNumber> number{};
  std::optional<DifferentTensor> tensor{};

  bool are_equal() const { return !number && !tensor; }
};

/// Compares bit by bit: of two runs' folders the lines of metrics.jsonl (but for times and speed) and the checkpoints of steps that
/// both have, until one differs, and their models; of two checkpoints' folders or two safetensors files the tensors.
/// Cost:   reads both files of each checkpoint once, a tensor at a time
/// Throws: InvalidArgument where they are of different kinds, have no step in common, or tensors that cannot be compared: of other
///         names, types or shapes; DamagedFile; IoError
Comparison compare(const std::filesystem::path& first, const std::filesystem::path& second);

}  // namespace adjoin::train
