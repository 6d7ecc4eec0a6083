#pragma once

#include <iosfwd>
#include <span>
#include <vector>

#include "adjoin/models/model.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/pipeline/simulation.hpp"
#include "adjoin/train/configuration.hpp"

namespace adjoin::train {

/// How a model is cut into the stages of a pipeline, which coordinates along pp have them, and in which order these act.
struct Stages {
  pipeline::Schedule schedule;
  std::vector<Range> segments{};  ///< of each stage, of all the model's

  int count() const { return schedule.stages; }
  int pp_of(int stage) const { return schedule.rank_of[static_cast<size_t>(stage)]; }
  std::vector<int> stages_at(int pp) const;
  /// The segments of the ranks at a coordinate along pp, in their order.
  std::vector<size_t> segments_at(int pp) const;
  /// Whether a stage's rank goes back through a micro-batch as soon as it has gone forward.
  bool backward_follows(int stage, int micro_batch) const;
  /// The place of a stage's first segment among those of its ranks.
  size_t place_of(int stage) const;
};

/// The schedule that a configuration asks for, read where it is a file.
/// Throws: InvalidArgument, which names the option, as pipeline::make_schedule and read_schedule do
pipeline::Schedule schedule_of(const Configuration& configuration);
/// Checks all of it that can be known without the model.
void check_schedule(const Configuration& configuration);

/// The stages that a configuration asks for.
/// Throws: InvalidArgument that names the option: for a schedule of other ranks or micro-batches, or one that is none; for more
///         stages than segments, or --stages of another number or sum; where a segment before another stage does not say the
///         shape of its output
Stages stages_of(const Configuration& configuration, std::span<const models::Segment> segments);

/// How the passes of a step go by simulation, where each way takes as long as the segments' costs say, or all stages take
/// equally long where these say nothing.
pipeline::Timeline expected_timeline(const Stages& stages, std::span<const models::Segment> segments);

/// A table of the stages: who has them, their segments, and their shares of the cost.
void print_stages(std::ostream& out, const Stages& stages, std::span<const models::Segment> segments);

/// The segments of a rank of the grid.
std::vector<models::Segment> segments_here(const Stages& stages, const std::vector<models::Segment>& segments,
                                           const Grid& grid);

/// This rank's pieces of the parameters and buffers. What two stages name is copied on both. `shards`: as WeightShards has them,
/// also where the model has whole ones.
std::vector<nn::Parameter> parameters_here(const Stages& stages, const std::vector<models::Segment>& segments,
                                           const models::Model& model, const Grid& grid, bool shards = false);

/// The parameters and buffers of the whole model, in the order of its segments, on the grid of all stages. `model` is made of this
/// rank's segments; what other stages hold is here a tensor of no elements.
std::vector<nn::Parameter> parameters_of(const Stages& stages, const std::vector<models::Segment>& segments,
                                         const models::Model& model, const Grid& grid, const at::TensorOptions& tensor,
                                         bool shards = false);

}  // namespace adjoin::train
