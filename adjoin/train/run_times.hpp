#pragma once

#include <cstdint>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/rank_times.hpp"
#include "adjoin/pipeline/schedule.hpp"

namespace adjoin::train {

/// How the ranks spent the time of a step.
struct StepTimes {
  double waiting_seconds = 0, communicating_seconds = 0;  // means over the ranks
  int slowest_rank = 0;                                   // the rank that waited least
};

/// When a rank of a pipeline did an action, in seconds since the step began on rank 0.
struct TimedAction {
  pipeline::Action action;
  double begin = 0, end = 0;
};

/// Records how a training's ranks spend their time. Each rank has one, and all ranks call each function together, except
/// note().
class RunTimes {
 public:
  explicit RunTimes(const Communicator& world) : world_(world.observed_by(nullptr)), ranks_(world) {}

  void begin_step();
  /// An action has ended, which kept the rank busy for `seconds`. Actions outside of a step do not count.
  void note(const pipeline::Action& action, double seconds);
  /// Ends the step. Returns its seconds on this rank.
  double end_step();
  /// The times of the step that has ended, from all that the rank's timeline recorded; empty on all ranks but 0.
  StepTimes of_step(const lab::Timeline::Interval& interval);

  /// The times of each rank, summed over all steps; empty where there was no step, and on all ranks but 0.
  const std::vector<lab::RankTimes>& sums() const { return sums_; }
  /// The actions that each rank noted in the last step, on rank 0; empty elsewhere.
  std::vector<std::vector<TimedAction>> last_actions() const;

 private:
  Communicator world_;  // without observers
  lab::TimesOfRanks ranks_;
  lab::TimeSpan step_;
  bool is_in_step_ = false;
  std::vector<lab::RankTimes> sums_;
  struct Noted {
    pipeline::Action action;
    lab::TimeSpan time;
  };
  std::vector<Noted> actions_;  // of the last step
};

}  // namespace adjoin::train
