#pragma once

#include <cstdint>
#include <string>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

class Task;
struct CheckpointChoice;

/// The configuration of a training that begins with the model in a folder: its model, and the recipe for it.
/// Throws: InvalidArgument where the folder holds no model
Configuration begun_from(const std::string& folder);
/// The entry of that model that limits the length of a text: "FOLDER/config.json has "max_position_embeddings": 512".
std::string limit_of_beginning(const std::string& folder);

/// The run that `--resume` names: a folder; with "auto" the folder that `--out` names if it holds a checkpoint, else "".
/// Throws: InvalidArgument for "auto" without `out`
std::string run_to_resume(const std::string& resume, const std::string& out);

/// How the run of a task in a folder continues, for people: "adjoin train --resume DIR".
std::string way_to_resume(const std::string& folder, const std::string& task);

/// Whether a run continues in the folder of its checkpoint.
bool resumes_in_place(const Configuration& configuration);

/// Throws: InvalidArgument where the output folder of a configuration holds an earlier run, finished or with a checkpoint, that
///         the run neither continues nor may overwrite
void check_earlier_run(const Configuration& configuration);

/// The configuration for continuing the run in an output folder: the one of its newest checkpoint, or of a step's, with
/// `resume` and `out` set to the folder itself.
/// Throws: InvalidArgument where there is no checkpoint or its configuration is not valid
Configuration configuration_to_resume(const std::string& folder, int64_t step = 0);

/// Checks that a training run's checkpoint holds the weights of the task's model. Nothing of the model's size is allocated.
/// Throws: InvalidArgument as load_state does
void check_weights_to_resume(const CheckpointChoice& choice, const Task& task);

}  // namespace adjoin::train
