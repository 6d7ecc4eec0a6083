#pragma once

#include <filesystem>
#include <memory>

#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/model_folder.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// A model in a folder: all that evaluation and prediction need besides the weights, which its folder reads.
struct SavedModel {
  Configuration configuration{};
  std::shared_ptr<Task> task{};  // without data
  std::shared_ptr<ModelFolder> folder;
};

/// Writes into a folder what a model needs besides its weights: the task's files, the schedule if it was read from a file, and
/// config.json. Throws: IoError
void write_model_files(const std::filesystem::path& folder, Configuration configuration, const Task& task,
                       const Stages& stages);

/// The same and then model.safetensors (global tensors). All workers of the grid call it, and all write the weights.
/// Throws: IoError on the worker where writing fails; no file is half-written
void save_model(const std::filesystem::path& folder, const Configuration& configuration, const Task& task,
                const Trainer& trainer);

/// Opens what save_model wrote into a training run's output folder, or, if the run has not finished, its newest checkpoint; if
/// the choice names a step, that step's checkpoint. A folder of Hugging Face's transformers is accepted too. `make` gives your
/// own task; without it, the task must be one that the program knows, or the error says who can use the model. `is_beginning`: training
/// begins with the model, whose classifier may be missing.
/// Throws: InvalidArgument where something is missing or not valid, before anything of its size is allocated
SavedModel open_model(const CheckpointChoice& choice, const TaskMaker& make = {}, bool is_beginning = false);
/// The names of the parameters of a task's model that are drawn although training begins with another model: those that the
/// other model lacks, and the classifier's last layer if the classes differ.
std::vector<std::string> drawn_anew(const SavedModel& beginning, const Task& task,
                                    const std::vector<nn::Parameter>& parameters);

/// The configuration of a saved model for other workers; a dp of 0 means all available ranks.
/// Throws: InvalidArgument as with_all_ranks and validate
Configuration configured(const SavedModel& saved, const ModelUse& use);

/// Sets the parameters of a task's model to the weights of the model with which training begins; parameters that it lacks are
/// drawn by the seed. All workers of the parameters' world call it.
void begin_with(const SavedModel& beginning, const Task& task, const std::vector<nn::Parameter>& parameters,
                int64_t seed);

/// A worker's model with the weights of a training run, in the layout of `configuration`. All workers of the world call it and
/// read the same checkpoint. `saved` must outlive the trainer.
/// Throws: InvalidArgument as load_state does
Trainer load_trainer(const SavedModel& saved, const Configuration& configuration, const Communicator& world);

}  // namespace adjoin::train
