#pragma once

#include <memory>
#include <optional>

#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/train/saved_model.hpp"

namespace adjoin::train {

/// The configuration with the values that --resume and --dp 0 stand for, checked as far as it can be without the task.
/// Throws: InvalidArgument where it is not valid
Configuration completed(Configuration configuration, const TaskMaker& make);

/// The task of a run that may begin; prints what it is. If the run writes, its output folder is checked and not changed.
/// Throws: InvalidArgument where the run cannot begin
std::unique_ptr<Task> prepared(Configuration& configuration, const TaskMaker& make, bool writes);

/// The model with which a training begins, printed; none where its weights are drawn or come from a checkpoint.
std::optional<SavedModel> beginning_of(const Configuration& configuration, const Task& task, const TaskMaker& make);

}  // namespace adjoin::train
