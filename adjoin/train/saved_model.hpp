#pragma once

#include <filesystem>

#include "adjoin/data/wordpiece.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/train/configuration.hpp"

namespace torch::nn {
class Module;
}

namespace adjoin::train {

/// All that evaluation and prediction need of a training run.
struct SavedModel {
  Configuration configuration;
  data::WordPiece tokenizer;
  std::filesystem::path weights;
};

/// Writes model.safetensors (global tensors), vocab.txt and config.json into a folder. Called by all workers of the
/// grid; worker 0 writes.
void save_model(const std::filesystem::path& folder, const Configuration& configuration,
                const data::WordPiece& tokenizer, const torch::nn::Module& model, const Grid& grid);

/// Opens what save_model wrote in a training run's output folder, or its checkpoint where the run has not finished.
/// Throws: InvalidArgument where something lacks or is not what it should be
SavedModel open_model(const std::filesystem::path& folder);

/// The text of a file. Throws: InvalidArgument where it cannot be read.
std::string read_text(const std::filesystem::path& path);

}  // namespace adjoin::train
