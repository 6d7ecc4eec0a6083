#pragma once

#include <filesystem>
#include <memory>

#include "adjoin/partition/grid.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/hugging_face/weight_files.hpp"
#include "adjoin/train/storage/read_checkpoint.hpp"
#include "adjoin/train/task.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace torch::nn {
class Module;
}

namespace adjoin::train {

/// The files of a checkpoint: weights, moments, and the weights that validation found best.
inline constexpr const char *kWeightsFile = "model.safetensors", *kMomentsFile = "optimizer.safetensors",
                            *kBestFile = "best.safetensors";

/// A model in a training run's output folder: all that evaluation and prediction need beside the weights.
struct SavedModel {
  Configuration configuration;
  std::shared_ptr<Task> task;  // without data
  CheckpointChoice place;      // the run, and its checkpoint unless it is finished, which may be replaced at any time
  bool is_finished;
  std::shared_ptr<const FamilyWeights> weights = {};  // of a folder of transformers
};

/// Where a run keeps the schedule of its pipeline, if a file gave it.
inline constexpr const char* kKeptSchedule = "pipeline.csv";
/// What a config.json means by its `pipeline`: the kept schedule is the file beside it.
std::string schedule_beside(const std::filesystem::path& config, const std::string& pipeline);

/// Writes into a folder what a model needs beside its weights: the task's files, the schedule if a file gave it, and
/// config.json. Throws: IoError
void write_model_files(const std::filesystem::path& folder, Configuration configuration, const Task& task,
                       const Stages& stages);

/// The same and then model.safetensors (global tensors). Called by all workers of the grid, which all write the weights.
/// Throws: IoError on the worker whose disk refuses; no file is half-written
void save_model(const std::filesystem::path& folder, const Configuration& configuration, const Task& task,
                const Trainer& trainer);

/// The configuration in a file that save_model wrote; `pipeline` is the schedule's file beside it, where there is one.
/// Throws: InvalidArgument that names the file
Configuration read_configuration(const std::filesystem::path& path);

/// Opens what save_model wrote in a training run's output folder, or its newest checkpoint where the run has not finished; that of
/// a step where the choice names one. `make` gives a task of one's own; without it, it is one that the program knows.
/// A folder of Hugging Face's transformers will do too.
/// Throws: InvalidArgument where something lacks or is not what it should be, before anything of its size is allocated
SavedModel open_model(const CheckpointChoice& choice, const TaskMaker& make = {});
/// The same of a model that training begins with, whose classifier may lack.
SavedModel open_beginning(const Configuration& configuration);
/// The configuration of a training that begins with the model in a folder: its model, and the recipe for it.
/// Throws: InvalidArgument as open_model
Configuration begun_from(const std::string& folder);
/// What of that model decides how long a text may be: "FOLDER/config.json has "max_position_embeddings": 512".
std::string limit_of_beginning(const std::string& folder);

/// The names of the parameters, those of a task's model, that a training draws though it begins with a model: those that this does not have, and the
/// classifier's last layer where the classes are others.
std::vector<std::string> drawn_anew(const SavedModel& beginning, const Task& task,
                                    const std::vector<nn::Parameter>& parameters);

/// The configuration of a saved model on other workers. Throws: InvalidArgument as validate
Configuration configured(const SavedModel& saved, const ModelUse& use);

/// Reads each worker's pieces of weights, which may be some of the model's; called by all workers of the world, which read the
/// same ones.
void read_weights(const SavedModel& saved, const Communicator& world, const std::vector<nn::Parameter>& parameters);

/// Gives the parameters of a task's model the weights of the one that training begins with, and those that this does not have by
/// the seed; called by all workers of the parameters' world.
void begin_with(const SavedModel& beginning, const Task& task, const std::vector<nn::Parameter>& parameters,
                int64_t seed);

/// A worker's model with the weights of a training run, in the layout of `configuration`; called by all workers of the
/// world, which read the same ones. `saved` outlives it.
/// Throws: InvalidArgument as load_state does
Trainer load_trainer(const SavedModel& saved, const Configuration& configuration, const Communicator& world);

/// The run that `--resume` means: a folder, or with "auto" the one that `--out` names where it holds a checkpoint, else
/// none (""). Throws: InvalidArgument for "auto" without `out`
std::string run_to_resume(const std::string& resume, const std::string& out);

/// Whether a run goes on in the folder of its checkpoint.
bool resumes_in_place(const Configuration& configuration);

/// Throws: InvalidArgument where the output folder of a configuration holds an earlier run, finished or with a checkpoint,
///         which the run neither goes on with nor was asked to overwrite
void check_earlier_run(const Configuration& configuration);

/// The configuration with which the run in a training run's output folder goes on: its newest checkpoint's, or that of a step,
/// with `resume` and `out` the folder itself.
/// Throws: InvalidArgument where there is no checkpoint or its configuration is not what it should be
Configuration configuration_to_resume(const std::string& folder, int64_t step = 0);

/// Checks that a training run's checkpoint holds the weights of the task's model. Nothing of the model's size is allocated.
/// Throws: InvalidArgument as load_state does
void check_weights_to_resume(const CheckpointChoice& choice, const Task& task);

}  // namespace adjoin::train
