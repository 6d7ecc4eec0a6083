#pragma once

#include <filesystem>
#include <memory>

#include "adjoin/hugging_face/weight_files.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/train/saved_configuration.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace torch::nn {
class Module;
}

namespace adjoin::train {

/// The files of a checkpoint: weights, moments, and the weights that validation found best.
inline constexpr const char *kWeightsFile = "model.safetensors", *kMomentsFile = "optimizer.safetensors",
                            *kBestFile = "best.safetensors";

/// A model in a training run's output folder: all that evaluation and prediction need besides the weights.
struct SavedModel {
  Configuration configuration;
  std::shared_ptr<Task> task;  // without data
  CheckpointChoice place;      // the run and, unless it is finished, its checkpoint, which may be replaced at any time
  bool is_finished;
  std::shared_ptr<const FamilyWeights> weights = {};  // for a folder of transformers
};

/// The file in which a run keeps the schedule of its pipeline, if it was read from a file.
inline constexpr const char* kKeptSchedule = "pipeline.csv";

/// Writes into a folder what a model needs besides its weights: the task's files, the schedule if it was read from a file, and
/// config.json. Throws: IoError
void write_model_files(const std::filesystem::path& folder, Configuration configuration, const Task& task,
                       const Stages& stages);

/// The same and then model.safetensors (global tensors). All workers of the grid call it, and all write the weights.
/// Throws: IoError on the worker where writing fails; no file is half-written
void save_model(const std::filesystem::path& folder, const Configuration& configuration, const Task& task,
                const Trainer& trainer);

/// The configuration in a file that save_model wrote; `pipeline` becomes the path of the schedule's file beside it, if there is
/// one.
/// Throws: InvalidArgument, with the name of the file
Configuration read_configuration(const std::filesystem::path& path);

/// Opens what save_model wrote into a training run's output folder, or, if the run has not finished, its newest checkpoint; if
/// the choice names a step, that step's checkpoint. A folder of Hugging Face's transformers is accepted too. `make` gives your
/// own task; without it, the task must be one that the program knows, or the error says who can use the model.
/// Throws: InvalidArgument where something is missing or not valid, before anything of its size is allocated
SavedModel open_model(const CheckpointChoice& choice, const TaskMaker& make = {});
/// The same for a model with which training begins; its classifier may be missing.
SavedModel open_beginning(const Configuration& configuration, const TaskMaker& make = {});
/// The names of the parameters of a task's model that are drawn although training begins with another model: those that the
/// other model lacks, and the classifier's last layer if the classes differ.
std::vector<std::string> drawn_anew(const SavedModel& beginning, const Task& task,
                                    const std::vector<nn::Parameter>& parameters);

/// The configuration of a saved model for other workers; a dp of 0 means all available ranks.
/// Throws: InvalidArgument as with_all_ranks and validate
Configuration configured(const SavedModel& saved, const ModelUse& use);

/// Reads each worker's pieces of weights, which may be only some of the model's. All workers of the world call it and read the
/// same checkpoint.
void read_weights(const SavedModel& saved, const Communicator& world, const std::vector<nn::Parameter>& parameters);

/// Sets the parameters of a task's model to the weights of the model with which training begins; parameters that it lacks are
/// drawn by the seed. All workers of the parameters' world call it.
void begin_with(const SavedModel& beginning, const Task& task, const std::vector<nn::Parameter>& parameters,
                int64_t seed);

/// A worker's model with the weights of a training run, in the layout of `configuration`. All workers of the world call it and
/// read the same checkpoint. `saved` must outlive the trainer.
/// Throws: InvalidArgument as load_state does
Trainer load_trainer(const SavedModel& saved, const Configuration& configuration, const Communicator& world);

/// Whether a run continues in the folder of its checkpoint.
bool resumes_in_place(const Configuration& configuration);

/// Throws: InvalidArgument where the output folder of a configuration holds an earlier run, finished or with a checkpoint, that
///         the run neither continues nor may overwrite
void check_earlier_run(const Configuration& configuration);

/// Checks that a training run's checkpoint holds the weights of the task's model. Nothing of the model's size is allocated.
/// Throws: InvalidArgument as load_state does
void check_weights_to_resume(const CheckpointChoice& choice, const Task& task);

}  // namespace adjoin::train
