#pragma once

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/pipeline/schedule.hpp"

namespace adjoin::train {

/// The share of a step in which the ranks of a pipeline are idle, from the begin of the first action to the end of the last.
struct Bubble {
  double measured = 0;
  double simulated = 0;  // with the mean times of the actions, and free transfers
};

/// Times the actions of training steps on one rank of a grid.
class BubbleMeter {
 public:
  explicit BubbleMeter(pipeline::Schedule schedule) : schedule_(std::move(schedule)) {}

  /// All ranks begin a step at the same time.
  void begin_step();
  /// As parallel::ActionObserver.
  void note(const pipeline::Action& action, double seconds);

  /// The medians over the steps. All ranks call it together and get the same.
  Bubble bubble(const Communicator& world) const;

 private:
  struct Sum {
    double seconds = 0, count = 0;
  };
  struct Step {
    std::chrono::steady_clock::time_point begin;
    double last_end = 0;                                         // seconds since `begin`
    std::map<std::pair<int, pipeline::Kind>, Sum> actions = {};  // for each stage and kind
  };
  Bubble bubble_of(const Step& step, const Communicator& world) const;

  pipeline::Schedule schedule_;
  std::vector<Step> steps_;
};

}  // namespace adjoin::train
