#pragma once

#include <filesystem>

#include "adjoin/data/wordpiece.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/trainer.hpp"

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

/// Writes vocab.txt, config.json and then model.safetensors (global tensors) into a folder. Called by all workers of
/// the grid; worker 0 writes. Throws: IoError on worker 0; no file is half-written
void save_model(const std::filesystem::path& folder, const Configuration& configuration,
                const data::WordPiece& tokenizer, const torch::nn::Module& model, const Grid& grid);

/// Opens what save_model wrote in a training run's output folder, or its checkpoint where the run has not finished.
/// Throws: InvalidArgument where something lacks or is not what it should be, before anything of its size is allocated
SavedModel open_model(const std::filesystem::path& folder);

/// Checks that a file holds the weights of the model that a configuration describes for a vocabulary of `words`. Nothing
/// of the model's size is allocated.
/// Throws: InvalidArgument as load_weights does
void check_weights(const std::filesystem::path& path, const Configuration& configuration, int64_t words);

/// A worker's model with the weights of a training run, in the layout of `configuration`.
/// Throws: InvalidArgument as load_weights does
Trainer load_trainer(const SavedModel& saved, const Configuration& configuration, const Communicator& world);

/// The configuration with which the run in a training run's output folder goes on: its checkpoint's, with `resume` and
/// `out` the folder itself.
/// Throws: InvalidArgument where there is no checkpoint or its configuration is not what it should be
Configuration configuration_to_resume(const std::string& folder);

/// The checkpoint in a training run's output folder, also where a crash left it under another name.
/// Throws: InvalidArgument where there is none
std::filesystem::path checkpoint_of(const std::filesystem::path& folder);

/// The text of a file. Throws: InvalidArgument where it cannot be read.
std::string read_text(const std::filesystem::path& path);

}  // namespace adjoin::train
