#pragma once

#include <filesystem>
#include <string>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The file in which a run keeps the schedule of its pipeline, if it was read from a file.
inline constexpr const char* kKeptSchedule = "pipeline.csv";
/// The `pipeline` value of a config.json, where the kept schedule becomes the path of the file beside it.
std::string schedule_beside(const std::filesystem::path& config, const std::string& pipeline);

/// The configuration in a config.json of a run's folder; `pipeline` becomes the path of the schedule's file beside it, if there
/// is one.
/// Throws: InvalidArgument, with the name of the file
Configuration read_configuration(const std::filesystem::path& path);

/// The configuration as a run's folder keeps it: its texts, its vocabulary and the model with which it began by absolute paths, so
/// that they are found, and nothing else in their place, from any other folder. For a task of one's own it is unchanged.
Configuration with_absolute_paths(Configuration configuration);

}  // namespace adjoin::train
