#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <vector>

#include "adjoin/models/model.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/pipeline/simulation.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// How a model is cut into the stages of a pipeline, which coordinates along pp have them, and in which order they act.
struct Stages {
  pipeline::Schedule schedule;
  std::vector<models::Segment> segments{};  ///< of the whole model
  std::vector<size_t> ends{};               ///< for each stage, the end of its range of these segments

  int count() const { return schedule.stages; }
  int pp_of(int stage) const { return schedule.rank_of[static_cast<size_t>(stage)]; }
  /// A stage's segments, and the first one's place among those of the model.
  std::span<const models::Segment> segments_of(int stage) const;
  size_t first_of(int stage) const { return stage == 0 ? 0 : ends[static_cast<size_t>(stage) - 1]; }
  std::vector<int> stages_at(int pp) const;
  /// Whether a stage's rank runs a micro-batch's backward immediately after its forward.
  bool backward_follows(int stage, int micro_batch) const;
  /// The place of a stage's first segment among all segments of its ranks.
  size_t place_of(int stage) const;
};

/// Checks what can be checked of a configuration's schedule without the model; if it is a file, it is read.
/// Throws: InvalidArgument, with the option's name, as pipeline::make_schedule and read_schedule do
void check_schedule(const Configuration& configuration);

/// The number of stages of a configuration's schedule. Throws: as check_schedule
int stage_count(const Configuration& configuration);

/// The stages that a configuration gives.
/// Throws: InvalidArgument, with the option's name: for a schedule that is invalid or for other numbers of ranks or
///         micro-batches; for more stages than segments, or --stages with another number or sum; where a segment before another
///         stage does not give the shape of its output
Stages stages_of(const Configuration& configuration, std::vector<models::Segment> segments);

/// The simulated passes of a step. Each takes as long as its segments' costs say; if there are no costs, all stages take
/// equally long.
pipeline::Timeline expected_timeline(const Stages& stages);

/// Prints a table of the stages: their ranks, their segments, and their shares of the cost.
void print_stages(std::ostream& out, const Stages& stages);

/// The model of a rank of the grid, which has the segments of the rank's stages. The rest is as in models::ModelImpl.
models::Model model_here(const Stages& stages, const Grid& grid, const at::TensorOptions& tensor,
                         models::Sharding sharding = models::Sharding::none, std::optional<uint64_t> seed = {});

/// This rank's pieces of the parameters and buffers. What two stages name is copied on both. The pieces of sharded parts are those of
/// WeightShards, also where the model has whole tensors.
std::vector<nn::Parameter> parameters_here(const Stages& stages, const models::Model& model, const Grid& grid,
                                           models::Sharding sharding = models::Sharding::none);

/// The parameters and buffers of the whole model, in the order of its segments, on the grid of all stages. `model` has this
/// rank's segments; what other stages hold is a tensor of no elements here.
std::vector<nn::Parameter> parameters_of(const Stages& stages, const models::Model& model, const Grid& grid,
                                         const at::TensorOptions& tensor,
                                         models::Sharding sharding = models::Sharding::none);

}  // namespace adjoin::train
