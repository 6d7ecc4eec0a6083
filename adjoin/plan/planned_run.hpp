#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/task/configuration.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/train/lanes.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::plan {

/// What the plans of all ranks are made from.
struct PlannedRun {
  const train::Configuration& configuration;
  const train::Task& task;
  int64_t hosts;
  train::Stages stages;
  pipeline::Timeline timeline = train::expected_timeline(stages);

  /// Whether rows of a weight are looked up and nothing else reads it: their gradients are one after the last backward only.
  bool is_table(const std::string& parameter) const {
    const auto is_part_of_it = [&](const models::ModuleRecipe& part) {
      return part.is_table && kept_as(part, train::sharding_of(configuration)) && part.has(parameter);
    };
    return std::ranges::any_of(stages.segments,
                               [&](const auto& segment) { return std::ranges::any_of(segment.parts, is_part_of_it); });
  }

  /// When a stage uses a micro-batch's message from another stage, to go forward or back.
  double taken_at(int stage, bool forward, int micro_batch) const {
    const auto rank = static_cast<size_t>(stages.pp_of(stage));
    const auto& actions = stages.schedule.actions[rank];
    const auto found = std::ranges::find_if(actions, [&](const pipeline::Action& action) {
      return action.stage == stage && action.micro_batch == micro_batch && action.kind != pipeline::Kind::weight &&
             (action.kind == pipeline::Kind::forward) == forward;
    });
    return timeline.begins[rank][static_cast<size_t>(found - actions.begin())];
  }
};

/// The micro-batches of a step, for the ranks at each coordinate of dp and cp.
class MicroBatches {
 public:
  struct OfRank {
    std::optional<train::Lanes> lanes;
    std::vector<train::OrderedBatch> batches;

    const HeldLanes* held() const { return lanes ? &lanes->held() : nullptr; }
  };
  MicroBatches(const train::Configuration& c, const train::Task& task, std::span<const int64_t> samples)
      : configuration_(c), task_(task), samples_(samples) {}

  const OfRank& of(const Grid& grid) {
    const auto [found, is_new] = known_.try_emplace({train::batch_ranks(grid).rank(), grid.axis("cp").rank()});
    auto& [lanes, batches] = found->second;
    if (!is_new) return found->second;
    lanes = train::lanes_of(configuration_, grid);
    for (int i = 0; i < train::parts_of_step(configuration_); ++i)
      batches.push_back(train::batch_of_step(configuration_, task_, samples_, i, {.training = true, .loss_share = 1},
                                             train::weight_type(configuration_.precision), grid, lanes));
    return found->second;
  }

 private:
  const train::Configuration& configuration_;
  const train::Task& task_;
  std::span<const int64_t> samples_;
  std::map<std::pair<int, int>, OfRank> known_;
};

}  // namespace adjoin::plan
