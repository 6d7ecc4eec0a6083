#include "adjoin/pipeline/simulation.hpp"

#include <algorithm>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/pipeline/walk.hpp"

namespace adjoin::pipeline {
namespace {

void check_cost(double cost, const char* what, size_t stage) {
  require(cost >= 0 && cost <= kMostCost, [&] {  // also refuses NaN
    return std::string(what) + " of stage " + std::to_string(stage) + " costs " + shortest_text(cost) +
           ", expected 0 to " + shortest_text(kMostCost);
  });
}

void check(const Costs& costs, int stages) {
  require(costs.stages.size() == static_cast<size_t>(stages), [&] {
    return "expected costs of " + counted(stages, "stage") + ", as many as the schedule has, got " +
           std::to_string(costs.stages.size());
  });
  for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
    check_cost(costs.stages[stage].forward, "forward", stage);
    check_cost(costs.stages[stage].input, "input", stage);
    check_cost(costs.stages[stage].weight, "weight", stage);
  }
  require(costs.transfer >= 0 && costs.transfer <= kMostCost, [&] {
    return "a transfer costs " + shortest_text(costs.transfer) + ", expected 0 to " + shortest_text(kMostCost);
  });
}

int most_in_flight_of(const std::vector<Action>& actions) {
  int now = 0, most = 0;
  for (const Action& action : actions) {
    if (action.kind == Kind::forward) most = std::max(most, ++now);
    if (action.kind == Kind::backward || action.kind == Kind::weight) --now;
  }
  return most;
}

}  // namespace

double StageCosts::of(Kind kind) const {
  if (kind == Kind::forward) return forward;
  if (kind == Kind::backward) return input + weight;
  return kind == Kind::input ? input : weight;
}

Costs equal_costs(const Schedule& schedule, const StageCosts& of_rank, double transfer) {
  std::vector<int> stages(schedule.actions.size());  // for each rank
  for (const int rank : schedule.rank_of) ++stages[static_cast<size_t>(rank)];
  Costs costs{.stages = {}, .transfer = transfer};
  for (const int rank : schedule.rank_of) {
    const int n = stages[static_cast<size_t>(rank)];
    costs.stages.push_back({of_rank.forward / n, of_rank.input / n, of_rank.weight / n});
  }
  return costs;
}

Timeline simulate(const Schedule& schedule, const Costs& costs) {
  check(schedule);
  check(costs, schedule.stages);
  const size_t ranks = schedule.actions.size();
  Timeline timeline{.begins = std::vector<std::vector<double>>(ranks), .most_in_flight = {}};
  for (size_t r = 0; r < ranks; ++r) timeline.begins[r].reserve(schedule.actions[r].size());
  double busy = 0;
  const auto cost_of = [&](const Action& action) {
    return costs.stages[static_cast<size_t>(action.stage)].of(action.kind);
  };
  Walk walk(schedule, cost_of, costs.transfer);
  walk.run([&](int rank, const Action& action, double begin, double end) {
    timeline.begins[static_cast<size_t>(rank)].push_back(begin);
    timeline.makespan = std::max(timeline.makespan, end);
    busy += cost_of(action);
  });
  const double all = timeline.makespan * static_cast<double>(ranks);
  if (all > 0) timeline.bubble = std::max(0.0, all - busy) / all;  // rounding can make it negative
  for (const auto& actions : schedule.actions) timeline.most_in_flight.push_back(most_in_flight_of(actions));
  return timeline;
}

std::optional<double> bubble_formula(std::string_view name, int ranks, int micro_batches, int chunks,
                                     const StageCosts& of_rank) {
  const auto& [forward, input, weight] = of_rank;
  const double all = forward + input + weight, behind = ranks - 1, m = micro_batches;
  if (all == 0) return {};
  if (name == "gpipe" || name == "1f1b") return behind / (m + behind);
  if (name == "interleaved" && micro_batches % ranks == 0) return behind / (chunks * m + behind);
  if (name == "zb-h1" && micro_batches >= ranks && weight <= std::min(forward, input)) {
    const double idle = behind * (forward + input - weight);
    return idle / (m * all + idle);
  }
  return {};
}

}  // namespace adjoin::pipeline
