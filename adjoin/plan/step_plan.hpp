#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adjoin/comm/contract/collective.hpp"
#include "adjoin/nn/expert_rows.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::plan {

/// A collective, an exchange of messages or a send that a step will call.
struct PlannedCall {
  std::optional<Collective> collective;  ///< none: messages
  int ranks = 1;                         ///< of the group
  int64_t bytes = 0;                     ///< what this rank sends, as Call::bytes()
  int span = 1;                          ///< ranks of the job from the group's first to its last, both included
  int messages = 1;                      ///< that this rank sends in it, if it is no collective
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
};

struct SegmentTrial;

/// Measures how long a segment takes. Two segments take equally long if `name` and the number of rows are equal, and also the
/// lengths of samples and whether it is recomputed, which the trial says. `weights`: elements of the segment's weights on this
/// rank.
using SegmentClock =
    std::function<SegmentSeconds(const SegmentTrial& trial, const std::string& name, int64_t rows, int64_t weights)>;

/// Plans steps of one task on many layouts. What layouts have in common is measured once. All tasks that it gets must have the
/// same model and samples, laid out as each configuration says.
class StepPlanner {
 public:
  /// `clock`: for StageWork::seconds.
  explicit StepPlanner(SegmentClock clock = {});
  ~StepPlanner();
  StepPlanner(const StepPlanner&) = delete;
  StepPlanner& operator=(const StepPlanner&) = delete;

  /// Like plan_step, for these ranks only; for all if `ranks` is empty.
  std::vector<RankPlan> plan(const train::Configuration& configuration, const train::Task& task,
                             std::span<const int64_t> samples, std::span<const int> ranks = {},
                             nn::AssumedExperts::Rows routing = nn::AssumedExperts::Rows::even);

 private:
  struct Measured;
  std::unique_ptr<Measured> measured_;
};

/// The plan of a step with these training samples, found by running it: each distinct segment of a rank is made and run forward
/// and back once, alone on this thread, without the other ranks' part of its communication. Nothing of the model's size is
/// allocated.
///
/// If the ranks along dp have more than 16 different micro-batches, only the 16 with the most rows are run; each smaller one is
/// assumed to need what the next larger one needs. If more than 16 ranks have equal weights, the optimizers of later ranks are
/// assumed to need what the first one's needs.
/// `routing`: how rows go to experts, if there are any; where all go to the experts of one rank, each rank's plan is made as if
/// it were that rank.
/// Throws: InvalidArgument where the model cannot be cut in this way
std::vector<RankPlan> plan_step(const train::Configuration& configuration, const train::Task& task,
                                std::span<const int64_t> samples,
                                nn::AssumedExperts::Rows routing = nn::AssumedExperts::Rows::even);

/// The plans as a list of objects, of each rank: rank, parameters, bytes as in the table, and calls.
nlohmann::ordered_json to_json(std::span<const RankPlan> ranks);

/// Prints a table of memory and one of calls, of at most 80 columns. Ranks whose parts of the model have equal sizes share a
/// line with the largest numbers of them. `of_full_experts`: the most bytes that a rank needs if its experts get all rows;
/// printed if it is more.
void print_plan(std::ostream& out, std::span<const RankPlan> ranks, int64_t of_full_experts = 0);

}  // namespace adjoin::plan
