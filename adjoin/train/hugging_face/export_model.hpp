#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/train/precision.hpp"

namespace adjoin::train {

/// What `adjoin export` is asked.
struct ExportRequest {
  std::string model;  ///< folder of a run, or of transformers
  int64_t step = 0;   ///< of the run's checkpoint; 0: the finished model, or the newest checkpoint
  std::string out;    ///< a folder that is not there yet, or empty
  std::optional<Precision> precision = {};  ///< of the weights; else each keeps its type
  int64_t shard_bytes = 0;  ///< most bytes of a file of weights, but for one tensor that is larger; 0: one file
};

/// What was written.
struct ExportResult {
  std::string architecture;
  int64_t tensors = 0, bytes = 0, files = 0;  ///< of weights
  bool has_tokenizer = false;
};

/// Writes a model as transformers opens it: config.json, safetensors, and its tokenizer where transformers has such. All of the
/// folder is there at once, or nothing is.
/// Cost:   memory of one tensor
/// Throws: InvalidArgument where the folder holds something, or no family can express the model, which it says of each; IoError
ExportResult export_model(const ExportRequest& request);

}  // namespace adjoin::train
