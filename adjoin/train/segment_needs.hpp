#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/train/grid_sizes.hpp"
#include "adjoin/train/step_plan.hpp"

namespace adjoin::train {

/// Keeps what the communicators that it observes call, but for groups of one rank.
class PlannedCalls final : public Observer {
 public:
  void begin(const Call& call) override;
  std::vector<PlannedCall> calls;
};

/// A rank that is alone with its part of the grid.
struct LoneRank {
  std::shared_ptr<PlannedCalls> calls = std::make_shared<PlannedCalls>();
  Grid grid;
  int64_t rows = 0;  ///< of its largest micro-batch

  LoneRank(const GridSizes& sizes, int rank);
};

/// What a segment asks of a rank for one micro-batch, forward and back. In bytes of tensors.
struct SegmentNeeds {
  int64_t forward = 0;   ///< at most while it runs forward, its input among them
  int64_t kept = 0;      ///< that wait for backward
  int64_t backward = 0;  ///< at most in backward beside those kept, the gradients of its weights among them
  /// What waits after backward until the stage's is over, or where it leaves the gradients of weights for later until they are
  /// computed; and at most while they are.
  int64_t left = 0, weights = 0;
  std::vector<PlannedCall> calls{};
  size_t forward_calls = 0;  ///< so many of the calls are forward
  SegmentSeconds seconds{};  ///< where a clock measures them
  at::Tensor output{};       ///< of the shape and type of its output, without memory
  int64_t tally = 0;         ///< numbers of the task's tally, for the last segment
};

/// Of which segment, and of what it is given.
struct SegmentTrial {
  const Configuration& configuration;
  const Task& task;
  const models::Segment& segment;
  const Grid& grid;  ///< of the whole job; observed by `calls`
  const MicroBatch& batch;
  at::Tensor
      input;  ///< as the output of the segment before says; undefined for the first, which takes the micro-batch's
  bool is_last;
  bool holds_input;                     ///< whether the input waits for backward in any case, as a stage's does
  bool splits_backward;                 ///< whether gradients of weights are left for later
  const std::set<std::string>& summed;  ///< the parameters whose gradients are summed within backward
  bool backward_follows;                ///< as models::ModelImpl::run
  /// The parts whose gradients an earlier segment of the stage, which names them too, sums with its own.
  const std::set<std::string>& summed_earlier;
  PlannedCalls& calls;
};

/// Makes the segment and runs it, with the loss where it is the last, but for matrix products (SkippedProducts).
SegmentNeeds measure(const SegmentTrial& trial);

/// How long to time a segment.
struct TimingEffort {
  int least = 3, most = 15;  ///< passes forward and back that count
  double seconds = 0.3;      ///< until so long was measured, or `most` passes have been
};

/// Seconds of the segment with random weights and input, on all `workers` at once, each with a segment of its own: the median of
/// passes, each of which takes as long as workers do in the mean. Gradients add up to those before where `adds_up`.
/// Called by all workers; the same on all of them.
SegmentSeconds time_segment(const SegmentTrial& trial, bool adds_up, const Communicator& workers,
                            const TimingEffort& effort);

}  // namespace adjoin::train
