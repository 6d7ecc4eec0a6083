#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <vector>

#include "adjoin/movement/planned_call.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/task.hpp"

namespace adjoin::train {

/// What a training step asks of a rank. Memory is in bytes of tensors; a library's scratch memory is not in it.
struct RankPlan {
  int rank = 0;
  int64_t rows = 0;  ///< of its largest micro-batch
  int64_t parameters = 0;
  int64_t weights = 0;  ///< with those that --validation keeps as the best
  int64_t gradients = 0, moments = 0;
  int64_t activations = 0;         ///< of one micro-batch, that wait for backward
  int64_t highest = 0;             ///< of all at once
  std::vector<PlannedCall> calls;  ///< of all micro-batches, without those of checked mode
};

/// The step of these training samples, by the formulas of segments, optimizer and task: no tensor is allocated and no model
/// computed. For the workers of the configuration's grid, each of which is a thread for a moment.
/// Throws: InvalidArgument where the model cannot be cut so, a segment does not say what it needs, or attention is gathered
std::vector<RankPlan> plan_step(const Configuration& configuration, const Task& task, std::span<const int64_t> samples);

/// A table of memory and one of calls, of at most 80 columns. Ranks whose parts of the model have equal sizes share a line,
/// which tells the most that one of them has.
void print_plan(std::ostream& out, std::span<const RankPlan> ranks);

}  // namespace adjoin::train
