#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task_maker.hpp"
#include "adjoin/train/resume.hpp"

namespace adjoin::train {

/// A kind of task that the program has, by the name of its model: the value of `--model`.
struct TaskKind {
  ModelKind model;
  /// Makes the task with the data that the configuration names; a resumed run uses its checkpoint's vocabulary.
  TaskMaker make;
  /// Makes the task of a model in a folder, without data. Throws: InvalidArgument where a file that files() wrote is missing
  std::unique_ptr<Task> (*open)(const Configuration& configuration, const std::filesystem::path& folder);
};

/// The names of the files that tasks of all kinds write into a model's folder.
std::vector<std::string> files_of_tasks();

/// The kind of task of a configuration's model. Throws: InvalidArgument for a task of one's own
const TaskKind& task_kind(const Configuration& configuration);

/// Makes the task of a configuration, and sets `configuration.task` to its name. Without `make` it is a task that the program
/// knows.
/// Throws: InvalidArgument where the configuration is not valid for it
std::unique_ptr<Task> make_task(Configuration& configuration, const TaskMaker& make);

}  // namespace adjoin::train
