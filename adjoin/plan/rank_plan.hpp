#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "adjoin/comm/contract/collective.hpp"

namespace adjoin::plan {

/// A collective, an exchange of messages or a send that a step will call.
struct PlannedCall {
  std::optional<Collective> collective;  ///< none: messages
  int ranks = 1;                         ///< of the group
  int64_t bytes = 0;                     ///< what this rank sends, as Call::bytes()
  int span = 1;                          ///< ranks of the job from the group's first to its last, both included
  int messages = 1;                      ///< that this rank sends in it, if it is no collective
  bool goes_on = false;  ///< while the rank computes: it is begun, and each of its ranks is on another host
  bool operator==(const PlannedCall&) const = default;
};

/// Seconds in which a rank computes one micro-batch, without its calls.
struct SegmentSeconds {
  double forward = 0;
  double backward = 0;          ///< without the time in `weight_gradients`
  double weight_gradients = 0;  ///< for the gradients of weights, where a schedule computes them later
  double waiting = 0;           ///< how much longer the slowest of equal ranks takes than their mean

  SegmentSeconds& operator+=(const SegmentSeconds& other);
  SegmentSeconds operator*(double factor) const;
};
inline constexpr double SegmentSeconds::*kPartsOfSeconds[] = {
    &SegmentSeconds::forward, &SegmentSeconds::backward, &SegmentSeconds::weight_gradients, &SegmentSeconds::waiting};

/// The work of one of a rank's stages in a step, for all micro-batches together.
struct StageWork {
  int stage = 0;
  SegmentSeconds seconds{};                    ///< 0 if not measured
  int64_t passes = 0;                          ///< number of segments' passes, forward and back
  std::vector<PlannedCall> forward, backward;  ///< calls of the segments
  int64_t sent = 0;                            ///< bytes of its output, where another rank has the next stage
};

/// What a training step needs of a rank. Memory is in bytes of tensors, without a library's scratch memory.
struct RankPlan {
  int rank = 0;
  int pp = 0;        ///< its coordinate along pp
  int64_t rows = 0;  ///< of its largest micro-batch
  int64_t parameters = 0;
  int64_t weights = 0;  ///< including those that --validation keeps as the best
  int64_t gradients = 0, moments = 0;
  int64_t activations = 0;            ///< the most that wait for backward
  int64_t highest = 0;                ///< the most in use at once
  int64_t tally = 0;                  ///< how many numbers the task's tally has, on ranks with the last stage
  std::vector<PlannedCall> calls{};   ///< for all micro-batches, without those of checked mode
  int64_t checkpoint_copies = 0;      ///< in addition to the highest, while a checkpoint is written in the background
  std::vector<StageWork> work{};      ///< for each of its stages
  std::vector<PlannedCall> update{};  ///< the calls after the last backward
  int64_t updated_weights = 0;        ///< number of weights that this rank's optimizer updates
  double solved_matrices = 0;         ///< the costs of the matrices that it solves, as parallel::MatrixRule counts them
};

/// A part of a step, in seconds of one rank.
struct StepPhase {
  const char* name;
  double computing = 0;
  double communicating = 0;  ///< by which it takes longer
  double hidden = 0;         ///< of calls that go on while it computes

  void add(double computes, double communicates, double hides) {
    computing += computes;
    communicating += communicates;
    hidden += hides;
  }
  double seconds() const { return computing + communicating; }
};

/// The seconds of a step, and the shares of all ranks' time in it, which add up to 1.
struct StepTime {
  double seconds = 0;
  double computing = 0, communicating = 0, bubble = 0;  ///< bubble: the idle ranks of a pipeline
  double hidden = 0;                                    ///< communication while ranks compute, of the same time
  std::vector<StepPhase> path{};                        ///< of the rank whose update is the slowest: what follows what
};

}  // namespace adjoin::plan
