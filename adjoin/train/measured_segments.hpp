#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/models/model.hpp"
#include "adjoin/train/memory_walk.hpp"
#include "adjoin/train/segment_needs.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/step_plan.hpp"

namespace adjoin::train {

/// A number of rows, and what else tells micro-batches of as many rows apart.
using Load = std::pair<int64_t, uint64_t>;

/// What segments need: by what is the same for all micro-batches, and by those.
using KnownNeeds = std::map<std::string, std::map<Load, SegmentNeeds>>;

/// Whose segments are measured: a rank's, of whose model `model` has shapes.
struct SegmentsOwner {
  const models::Model& model;
  const std::set<std::string>& summed;  ///< the parameters whose gradients are summed within backward
  const Grid& grid;
  PlannedCalls& calls;
};

/// Measures the segments of one layout, each distinct one once.
class MeasuredSegments {
 public:
  /// `known`: what earlier layouts needed, to which this one's needs are added. All are kept by reference.
  MeasuredSegments(const Configuration& configuration, const Task& task, const Stages& stages,
                   const SegmentClock& clock, KnownNeeds& known);

  /// Of the segments of one of a rank's stages, for the micro-batch of this number.
  StageNeeds needs(int stage, int number, const SegmentsOwner& owner, const MicroBatch& batch);

  /// Of what a segment's output becomes for the next stage, which has its shape, on any rank.
  at::Tensor arriving(size_t segment, const models::Model& model, const MicroBatch& batch) const;

 private:
  struct Given;
  std::set<std::string> summed_earlier(int64_t first, int64_t segment) const;
  const SegmentNeeds& needs_of(size_t i, const Given& given);
  std::string name_of(size_t i, const Given& given) const;

  const Configuration& configuration_;
  const Task& task_;
  const Stages& stages_;
  const std::vector<models::Segment> segments_;  // of all stages
  std::set<std::pair<int, int>> split_;          // the stages and micro-batches whose backward has two parts
  const SegmentClock& clock_;
  KnownNeeds& known_;
};

}  // namespace adjoin::train
