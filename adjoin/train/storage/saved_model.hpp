#pragma once

#include <filesystem>
#include <memory>

#include "adjoin/partition/grid.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/storage/safetensors.hpp"
#include "adjoin/train/task.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace torch::nn {
class Module;
}

namespace adjoin::train {

/// A model in a training run's output folder: all that evaluation and prediction need beside the weights.
struct SavedModel {
  Configuration configuration;
  std::shared_ptr<Task> task;  // without data
  std::filesystem::path run;
  bool is_finished;  // else it is that of the run's checkpoint, which may be replaced at any time
};

/// Where a run keeps the schedule of its pipeline, if a file gave it.
inline constexpr const char* kKeptSchedule = "pipeline.csv";
/// What a config.json means by its `pipeline`: the kept schedule is the file beside it.
std::string schedule_beside(const std::filesystem::path& config, const std::string& pipeline);

/// Writes the task's files, a schedule that a file gave, config.json and then model.safetensors (global tensors) into a folder.
/// Called by all workers of the grid; worker 0 writes. Throws: IoError on worker 0; no file is half-written
void save_model(const std::filesystem::path& folder, Configuration configuration, const Task& task,
                const Trainer& trainer, const Metadata& metadata = {});

/// The configuration in a file that save_model wrote; `pipeline` is the schedule's file beside it, where there is one.
/// Throws: InvalidArgument that names the file
Configuration read_configuration(const std::filesystem::path& path);

/// Opens what save_model wrote in a training run's output folder, or its checkpoint where the run has not finished. `make`
/// gives a task of one's own; without it, it is one that the program knows.
/// Throws: InvalidArgument where something lacks or is not what it should be, before anything of its size is allocated
SavedModel open_model(const std::filesystem::path& folder, const TaskMaker& make = {});

/// The configuration of a saved model on other workers. Throws: InvalidArgument as validate
Configuration configured(const SavedModel& saved, const ModelUse& use);

/// Reads each worker's pieces of the weights; called by all workers of the world, which read the same ones.
void read_weights(const SavedModel& saved, const Communicator& world, const std::vector<nn::Parameter>& parameters);

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

/// The configuration with which the run in a training run's output folder goes on: its checkpoint's, with `resume` and
/// `out` the folder itself.
/// Throws: InvalidArgument where there is no checkpoint or its configuration is not what it should be
Configuration configuration_to_resume(const std::string& folder);

/// Checks that the checkpoint in a training run's output folder holds the weights of the task's model. Nothing of the
/// model's size is allocated.
/// Throws: InvalidArgument as load_state does
void check_weights_to_resume(const std::string& folder, const Task& task);

}  // namespace adjoin::train
