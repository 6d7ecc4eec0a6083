#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "adjoin/nn/expert_tokens.hpp"
#include "adjoin/plan/rank_plan.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::plan {

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
  /// `clock`: for StageWork::seconds. `hosts`: the ranks of each are neighbours.
  explicit StepPlanner(SegmentClock clock = {}, int64_t hosts = 1);
  ~StepPlanner();
  StepPlanner(const StepPlanner&) = delete;
  StepPlanner& operator=(const StepPlanner&) = delete;

  /// Like plan_step, for these ranks only; for all if `ranks` is empty.
  std::vector<RankPlan> plan(const train::Configuration& configuration, const train::Task& task,
                             std::span<const int64_t> samples, std::span<const int> ranks = {},
                             nn::AssumedExperts::Spread routing = nn::AssumedExperts::Spread::even);

 private:
  struct Measured;
  std::unique_ptr<Measured> measured_;
};

/// Throws: InvalidArgument for a configuration that computes on a device, of whose memory and speed a plan knows nothing yet
void check_planned_device(const train::Configuration& configuration);

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
                                nn::AssumedExperts::Spread routing = nn::AssumedExperts::Spread::even,
                                int64_t hosts = 1);

/// The plans as a list of objects, of each rank: rank, parameters, bytes as in the table, and calls.
nlohmann::ordered_json to_json(std::span<const RankPlan> ranks);

/// Prints a table of memory and one of calls, of at most 80 columns. Ranks whose parts of the model have equal sizes share a
/// line with the largest numbers of them. `of_full_experts`: the most bytes that a rank needs if its experts get all rows;
/// printed if it is more.
void print_plan(std::ostream& out, std::span<const RankPlan> ranks, int64_t of_full_experts = 0);

}  // namespace adjoin::plan
