#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/train/configuration.hpp"
#include "adjoin/train/task.hpp"

namespace adjoin::train {

/// A kind of task that the program knows, by the name of its model: what `--model` says.
struct TaskKind {
  std::string_view model;
  /// With the data that the configuration names, in the words of the checkpoint where it resumes a run.
  std::unique_ptr<Task> (*make)(const Configuration& configuration);
  /// Of a model in a folder, without data. Throws: InvalidArgument where what files() wrote is not there
  std::unique_ptr<Task> (*open)(const Configuration& configuration, const std::filesystem::path& folder);
};

/// The names of what the tasks of all kinds write into a model's folder.
std::vector<std::string> files_of_tasks();

/// That of a configuration's model.
const TaskKind& task_kind(const Configuration& configuration);

}  // namespace adjoin::train
