#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The `pipeline` value of a config.json, where the kept schedule becomes the path of the file beside it.
std::string schedule_beside(const std::filesystem::path& config, const std::string& pipeline);

/// The configuration as a run's folder keeps it: its texts, its vocabulary and the model with which it began by absolute paths, so
/// that they are found, and nothing else in their place, from any other folder. For a task of one's own it is unchanged.
Configuration with_absolute_paths(Configuration configuration);

/// The configuration of a training that begins with the model in a folder: its model, and the recipe for it.
/// Throws: InvalidArgument as open_model
Configuration begun_from(const std::string& folder);
/// The entry of that model that limits the length of a text: "FOLDER/config.json has "max_position_embeddings": 512".
std::string limit_of_beginning(const std::string& folder);

/// The run that `--resume` names: a folder; with "auto" the folder that `--out` names if it holds a checkpoint, else "".
/// Throws: InvalidArgument for "auto" without `out`
std::string run_to_resume(const std::string& resume, const std::string& out);

/// How the run of a task in a folder continues, for people: "adjoin train --resume DIR".
std::string way_to_resume(const std::string& folder, const std::string& task);

/// The configuration for continuing the run in an output folder: the one of its newest checkpoint, or of a step's, with
/// `resume` and `out` set to the folder itself.
/// Throws: InvalidArgument where there is no checkpoint or its configuration is not valid
Configuration configuration_to_resume(const std::string& folder, int64_t step = 0);

/// Throws: InvalidArgument, in a sentence that begins with `where`, for the configuration of a task of one's own, which the
/// program does not know
void check_known(const Configuration& configuration, const std::string& where);

}  // namespace adjoin::train
