#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "adjoin/pipeline/schedule.hpp"

namespace adjoin::pipeline {

/// What the actions of a stage cost, in seconds or any other unit: a backward costs input + weight.
struct StageCosts {
  double forward = 1, input = 1, weight = 1;

  double of(Kind kind) const;
};

struct Costs {
  std::vector<StageCosts> stages;  // of each stage
  double transfer = 0;             // of a result to another rank, which the one before on its way there may delay
};

/// Costs of stages of which all on one rank together cost `of_rank`, equally much each.
Costs equal_costs(const Schedule& schedule, const StageCosts& of_rank, double transfer = 0);

/// When everything happens.
struct Timeline {
  std::vector<std::vector<double>> begins;  // of each rank's actions, in its order
  double makespan = 0;                      // when the last action ends; the first begins at 0
  double bubble = 0;                        // the part of the time of all ranks in which they are idle, 0 to 1
  /// Of each rank: how many activations of one micro-batch in one stage it keeps at most. They are kept from the forward
  /// on until the backward, or until the weight where that is apart, is done.
  std::vector<int> most_in_flight;
};

/// Runs a schedule with these costs, each action as early as it can. A transfer occupies neither of its two ranks, but those from
/// one rank to another follow each other, as on one cable. It costs nothing between two stages of one rank.
///
/// Cost:   linear in the number of actions
/// Throws: InvalidArgument where `check` refuses the schedule, or a cost is missing or not from 0 to kMostCost
Timeline simulate(const Schedule& schedule, const Costs& costs);
inline constexpr double kMostCost = 1e100;

/// The bubble by formula, where transfers are free and all stages of each rank together cost `of_rank`, equally much each.
/// None where no formula is known: for other names, for interleaved unless the ranks divide the micro-batches, for zb-h1
/// unless there are as many micro-batches as ranks and weight <= min(forward, input), and where nothing costs anything.
std::optional<double> bubble_formula(std::string_view name, int ranks, int micro_batches, int chunks,
                                     const StageCosts& of_rank);

}  // namespace adjoin::pipeline
