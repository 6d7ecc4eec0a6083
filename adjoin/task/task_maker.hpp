#pragma once

#include <functional>
#include <memory>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

class Task;

/// Makes a task, in each process of a job.
using TaskMaker = std::function<std::unique_ptr<Task>(const Configuration& configuration)>;

}  // namespace adjoin::train
