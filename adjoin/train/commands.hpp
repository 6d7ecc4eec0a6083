#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "adjoin/train/configuration.hpp"
#include "adjoin/train/task.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// `adjoin train`: trains, evaluates, and writes the output folder. A task of one's own is trained likewise.
/// Throws: InvalidArgument before anything is written; Interrupted after the checkpoint was.
void train(const Configuration& configuration);
void train(const Configuration& configuration, const TaskMaker& make);

/// `adjoin train --dry-run`: prints what `train` would do, its plan, and what a step asks of each rank; trains nothing, and
/// writes nothing but the cache of tokens. The step is that of the longest samples.
/// Throws: InvalidArgument as train before it begins, but where the machine has too few cores, or the job other ranks
void dry_run(const Configuration& configuration);

/// What `adjoin evaluate` is asked.
struct EvaluateOptions : ModelUse {
  TextSource source;  // without names of columns those of the training run
  int64_t batch = 0;  // samples computed at once over all ranks; 0: as in the training run
};

struct EvaluationResult {
  std::shared_ptr<const Task> task;  // whose test part was evaluated
  Evaluation evaluation;
  double seconds = 0;
};

/// The mean loss and the measures of a trained model over the test samples; the same on every process of an MPI job.
/// Of a model of one's own task, which `make` gives, on that task's test part unless the options name texts.
/// Throws: Error where the loss is not finite
EvaluationResult evaluate(const EvaluateOptions& options, const TaskMaker& make = {});

}  // namespace adjoin::train
