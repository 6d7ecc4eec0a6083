#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "adjoin/models/model.hpp"
#include "adjoin/plan/memory_walk.hpp"
#include "adjoin/plan/segment_needs.hpp"
#include "adjoin/plan/step_plan.hpp"
#include "adjoin/train/lanes.hpp"
#include "adjoin/train/stages.hpp"

namespace adjoin::plan {

/// A number of rows, and a hash that distinguishes micro-batches with equal numbers of rows.
using Load = std::pair<int64_t, uint64_t>;

/// What a segment's needs depend on, besides the micro-batch.
struct NeedsKey {
  std::vector<int64_t> layout;
  std::string segment;              ///< its kind, and the rank's pieces of weights
  std::vector<bool> larger_shards;  ///< of which of its sharded weights the rank has more rows than others
  std::vector<bool> of_trial;       ///< what else a SegmentTrial says

  auto operator<=>(const NeedsKey&) const = default;
};

/// The needs of segments: first by what is the same for all micro-batches, then by micro-batch.
using KnownNeeds = std::map<NeedsKey, std::map<Load, SegmentNeeds>>;

/// The rank whose segments are measured; `model` has the shapes of that rank's model.
struct SegmentsOwner {
  const models::Model& model;
  const std::set<std::string>& summed;  ///< the parameters whose gradients are summed during backward
  const Grid& grid;
  PlannedCalls& calls;
  const HeldLanes* lanes;  ///< null where sums may have any order
};

/// Measures the segments of one layout, each distinct segment once.
class MeasuredSegments {
 public:
  /// `known`: the needs of earlier layouts; this layout's are added. All arguments are kept by reference.
  MeasuredSegments(const train::Configuration& configuration, const train::Task& task, const train::Stages& stages,
                   const SegmentClock& clock, KnownNeeds& known);

  /// The needs of the segments of one of a rank's stages, for the micro-batch with this number.
  StageNeeds needs(int stage, int number, const SegmentsOwner& owner, const train::OrderedBatch& batch);

  /// What a stage's output is for the next one, whose rank this need not be: tensors of its shapes.
  parallel::Bundle arriving(int stage, const SegmentsOwner& owner, const train::OrderedBatch& batch);

 private:
  std::set<std::string> summed_earlier(int stage, size_t segment, bool splits) const;
  std::set<std::string> used_twice(const models::ModelImpl& model, const models::Segment& segment) const;
  /// `i`: the place of the segment in the rank's model.
  const SegmentNeeds& needs_of(const SegmentTrial& trial, const models::Model& model, size_t i);

  const train::Configuration& configuration_;
  const train::Task& task_;
  const train::Stages& stages_;
  std::map<std::tuple<int, int, int, int64_t>, parallel::Bundle>
      arriving_;                         // by stage, place along replica and tp, size of input
  std::set<std::pair<int, int>> split_;  // the stages and micro-batches whose backward is in two parts
  const SegmentClock& clock_;
  KnownNeeds& known_;
};

}  // namespace adjoin::plan
