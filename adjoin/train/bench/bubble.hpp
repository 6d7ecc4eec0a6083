#pragma once

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/pipeline/schedule.hpp"

namespace adjoin::train {

/// The idle part of the time that the ranks of a pipeline take for a step, from the first action's begin to the last one's end.
struct Bubble {
  double measured = 0;
  double simulated = 0;  // with what the actions took on average, and free transfers
};

/// Times the actions of training steps on one rank of a grid.
class BubbleMeter {
 public:
  explicit BubbleMeter(pipeline::Schedule schedule) : schedule_(std::move(schedule)) {}

  /// All ranks begin a step at once.
  void begin_step();
  /// As parallel::ActionObserver.
  void note(const pipeline::Action& action, double seconds);

  /// The medians over the steps, the same on all ranks, which call this together.
  Bubble bubble(const Communicator& world) const;

 private:
  struct Sum {
    double seconds = 0, count = 0;
  };
  struct Step {
    std::chrono::steady_clock::time_point begin;
    double last_end = 0;                                         // seconds from `begin` on
    std::map<std::pair<int, pipeline::Kind>, Sum> actions = {};  // of each stage
  };
  Bubble bubble_of(const Step& step, const Communicator& world) const;

  pipeline::Schedule schedule_;
  std::vector<Step> steps_;
};

}  // namespace adjoin::train
