#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "adjoin/pipeline/schedule.hpp"

namespace adjoin::pipeline {

/// Goes through all actions of a schedule, each as early as it can run. The stages and micro-batches of its actions
/// must exist; in all other respects the schedule may be invalid.
class Walk {
 public:
  using CostOf = std::function<double(const Action& action)>;
  using OnAction = std::function<void(int rank, const Action& action, double begin, double end)>;

  /// A result takes `transfer` to another rank, and those from one rank to another follow each other. Costs must be finite.
  Walk(const Schedule& schedule, CostOf cost_of, double transfer);

  /// Calls `on_action` for each action that can run: those of a rank in its order, and each after the actions that it
  /// needs.
  void run(const OnAction& on_action);

  /// The number of actions of a rank that have run; all of them, unless ranks wait for each other.
  size_t reached(int rank) const { return ranks_[static_cast<size_t>(rank)].reached; }
  /// An action that has not run, and that this one needs.
  std::optional<Action> missing_input(const Action& action) const;

 private:
  struct Rank {
    size_t reached = 0;
    double end = 0;  // end of the last action that ran
    bool is_queued = false;
  };

  /// What a stage gives of a micro-batch: when that is there, and when the rank of the stage that needs it has it.
  struct Result {
    double end = kNotYet, arrival = kNotYet;
  };
  static constexpr double kNotYet = std::numeric_limits<double>::infinity();

  size_t slot(int stage, int micro_batch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(schedule_.micro_batches) + static_cast<size_t>(micro_batch);
  }
  double when_ready(const Action& action) const;
  void run_rank(int rank, const OnAction& on_action);
  void note_end(int rank, const Action& action, double end);
  void queue(int rank);

  const Schedule& schedule_;
  CostOf cost_of_;
  double transfer_;
  std::vector<Result> outputs_, gradients_;        // of each stage and micro-batch: of forward, and of its input
  std::map<std::pair<int, int>, double> links_{};  // from a rank to another: when the last result has arrived
  std::vector<Rank> ranks_;
  std::vector<int> queue_;  // ranks that may be able to continue
};

}  // namespace adjoin::pipeline
