#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/lab/machine.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/measure.hpp"
#include "adjoin/train/expert_counts.hpp"
#include "adjoin/train/run_times.hpp"
#include "adjoin/train/validation.hpp"

namespace adjoin::train {

/// What one rank held.
struct RankSummary {
  int rank = 0;
  int64_t parameters = 0;
  int64_t peak_memory_bytes = 0;  // of tensors
  std::vector<int> stages{};      // of the pipeline
  /// Over the steps since the program was started; none where there was no step, and in the summary of other ranks than 0.
  std::optional<lab::RankTimes> times{};
};

/// Which program ended a run, where and when.
struct Origin {
  std::string adjoin{}, libtorch{};  // versions
  std::string host{};
  std::string date{};  // "2026-01-31T23:59:59Z"
  Machine machine{};   // of the process that writes it, which is rank 0's
};

/// The origin of this process, now.
Origin this_origin();
nlohmann::ordered_json to_json(const Machine& machine);

/// The results of a finished run, for the file summary.json and the table at the end.
struct Summary {
  Origin origin{};
  Configuration configuration;
  std::vector<RankSummary> ranks;
  double train_loss = 0;  // mean over the samples of the last epoch, without skipped steps
  double test_loss = 0;
  std::vector<Measure> test_measures;
  nlohmann::ordered_json
      test_details{};  // what the task says besides: of a classifier the classes, their F1, the confusion matrix
  RowsOfExperts expert_rows{};  // in the test samples
  double train_seconds = 0;
  int64_t skipped_steps = 0;  // steps whose gradients were not finite
  Validations validations{};  // if there were any, the model is that of the best one
  int64_t last_step = 0;
  /// What each rank of a pipeline did in a step; empty where there was no step, and in the summary of other ranks than 0.
  std::vector<std::vector<TimedAction>> pipeline_step{};
};

nlohmann::ordered_json to_json(const Summary& summary);

/// Prints the final tables: measures, losses and seconds; for each rank parameters and peak tensor memory in MiB; and for each
/// rank how its time was spent, in per cent.
void print_table(std::ostream& out, const Summary& summary);

}  // namespace adjoin::train
