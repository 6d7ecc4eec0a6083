#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adjoin/comm/collective.hpp"
#include "adjoin/nn/expert_rows.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/task.hpp"

namespace adjoin::train {

/// A collective, or an exchange of messages or a send, that a step will call.
struct PlannedCall {
  std::optional<Collective> collective;  ///< none: messages
  int ranks = 1;                         ///< of the group
  int64_t bytes = 0;                     ///< that this rank gives, as Call::bytes()
  int span = 1;                          ///< ranks of the job from the group's first to its last, both counted
  bool operator==(const PlannedCall&) const = default;
};

/// Seconds in which a rank computes one micro-batch, without what it calls.
struct SegmentSeconds {
  double forward = 0;
  double backward = 0;  ///< without what follows in `weights`
  double weights = 0;   ///< the gradients of weights, where a schedule leaves them for later
  double waiting = 0;   ///< by which the slowest of ranks that compute the same exceeds their mean

  SegmentSeconds& operator+=(const SegmentSeconds& other);
  SegmentSeconds operator*(double factor) const;
};

/// What one of a rank's stages does in a step, for all micro-batches together.
struct StageWork {
  int stage = 0;
  SegmentSeconds seconds{};                    ///< 0 where nobody measures them
  int64_t passes = 0;                          ///< of segments, forward and back
  std::vector<PlannedCall> forward, backward;  ///< of segments
  int64_t sent = 0;                            ///< bytes of its output, where another rank has the next stage
};

/// What a training step asks of a rank. Memory is in bytes of tensors; a library's scratch memory is not in it.
struct RankPlan {
  int rank = 0;
  int pp = 0;        ///< its coordinate along pp
  int64_t rows = 0;  ///< of its largest micro-batch
  int64_t parameters = 0;
  int64_t weights = 0;  ///< with those that --validation keeps as the best
  int64_t gradients = 0, moments = 0;
  int64_t activations = 0;            ///< that wait for backward, at most
  int64_t highest = 0;                ///< of all at once
  int64_t tally = 0;                  ///< numbers of the task's tally, on ranks that have the last stage
  std::vector<PlannedCall> calls{};   ///< of all micro-batches, without those of checked mode
  int64_t copies = 0;                 ///< on top of the highest while a checkpoint is written in the background
  std::vector<StageWork> work{};      ///< of its stages
  std::vector<PlannedCall> update{};  ///< those of the calls that follow the last backward
  int64_t updated = 0;                ///< elements of weights that this rank's optimizer updates
};

struct SegmentTrial;

/// Measures how long a segment takes. `name` and the number of rows tell it from all that take another time, but for lengths of
/// samples, and for whether it is recomputed, which the trial says. `weights`: elements of those that the rank has of it.
using SegmentClock =
    std::function<SegmentSeconds(const SegmentTrial& trial, const std::string& name, int64_t rows, int64_t weights)>;

/// Plans steps of one task on many layouts. What layouts have in common is measured once. All that it is given of a task belongs
/// to one model and one set of samples, laid out as each configuration says.
class StepPlanner {
 public:
  /// `clock`: for StageWork::seconds.
  explicit StepPlanner(SegmentClock clock = {});
  ~StepPlanner();
  StepPlanner(const StepPlanner&) = delete;
  StepPlanner& operator=(const StepPlanner&) = delete;

  /// As plan_step, of these ranks alone; of all where none is named.
  std::vector<RankPlan> plan(const Configuration& configuration, const Task& task, std::span<const int64_t> samples,
                             std::span<const int> ranks = {},
                             nn::AssumedExperts::Rows routing = nn::AssumedExperts::Rows::even);

 private:
  struct Known;
  std::unique_ptr<Known> known_;
};

/// The step of these training samples, measured: each distinct segment of a rank is made and run forward and back once,
/// alone on this thread, with the other ranks' part of its communication left out. Nothing of the model's size is allocated.
///
/// Where ranks along dp have more than 16 different micro-batches, those of most rows are run, and smaller ones are said to need
/// what the next larger one needs; of more than 16 ranks with equal weights the later ones' optimizers what the first one's needs.
/// `routing`: how rows go to experts, where there are some; where all go to those of one rank, each plan is of the rank that has them.
/// Throws: InvalidArgument where the model cannot be cut so
std::vector<RankPlan> plan_step(const Configuration& configuration, const Task& task, std::span<const int64_t> samples,
                                nn::AssumedExperts::Rows routing = nn::AssumedExperts::Rows::even);

/// A table of memory and one of calls, of at most 80 columns. Ranks whose parts of the model have equal sizes share a line,
/// which tells the most that one of them has.
/// `of_full_experts`: the most that a rank needs whose experts get all rows, told where it is more; in bytes.
void print_plan(std::ostream& out, std::span<const RankPlan> ranks, int64_t of_full_experts = 0);

}  // namespace adjoin::train
