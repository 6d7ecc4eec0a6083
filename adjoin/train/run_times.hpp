#pragma once

#include <cstdint>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/times_of_ranks.hpp"
#include "adjoin/pipeline/schedule.hpp"

namespace adjoin::train {

/// Where the time of the ranks went in a step.
struct StepTimes {
  double waiting_seconds = 0, communicating_seconds = 0;  // means over the ranks
  int slowest_rank = 0;                                   // the one that waited least
};

/// What a rank of a pipeline did when, in seconds since the step began on rank 0.
struct TimedAction {
  pipeline::Action action;
  double begin = 0, end = 0;
};

/// Notes where the time of a training's ranks goes. Each rank has one, and all call each function together but for note().
class RunTimes {
 public:
  explicit RunTimes(const Communicator& world) : world_(world.observed_by(nullptr)), ranks_(world) {}

  void begin_step();
  /// An action that is done, of which the rank was busy so long; those outside of a step do not count.
  void note(const pipeline::Action& action, double seconds);
  /// The step is over. Returns its seconds on this rank.
  double end_step();
  /// Of the step that is over, with all that the rank's timeline took; without content on all ranks but 0.
  StepTimes of_step(const lab::Timeline::Taken& taken);

  /// Of each rank, over all steps; empty where there was none, and on all ranks but 0.
  const std::vector<lab::RankTimes>& sums() const { return sums_; }
  /// The actions that each rank noted in the last step, on rank 0; elsewhere empty.
  std::vector<std::vector<TimedAction>> last_actions() const;

 private:
  Communicator world_;  // that nobody observes
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
