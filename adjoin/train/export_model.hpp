#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The options of `adjoin export`.
struct ExportRequest {
  std::string model;  ///< folder of a run, or of transformers
  int64_t step = 0;   ///< a checkpoint of the run; 0: the finished model, or the newest checkpoint
  std::string out;    ///< a folder that does not exist yet, or is empty; of a program a file
  std::optional<Precision> precision = {};  ///< of the weights; by default each keeps its type
  int64_t shard_bytes = 0;  ///< the most bytes of a weight file, except where one tensor is larger; 0: one file
};

/// What was written.
struct ExportResult {
  std::string architecture;
  int64_t tensors = 0, bytes = 0, files = 0;  ///< of the weights
  bool has_tokenizer = false;
};

/// Writes a model in the form that transformers opens: config.json, safetensors, and the tokenizer where transformers has one
/// like it. Of a program it writes what Python's load_state_dict takes, a safetensors file. What it writes appears complete, or not at
/// all.
/// Cost:   memory of one tensor
/// Throws: InvalidArgument where the folder is not empty, or where no family can express the model, with the reason for each
///         family; IoError
ExportResult export_model(const ExportRequest& request);

}  // namespace adjoin::train
