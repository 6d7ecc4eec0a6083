#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "adjoin/pipeline/simulation.hpp"
#include "tests/support/layouts.hpp"

namespace adjoin::testing {

/// What random schedules are drawn from.
struct ScheduleLimits {
  int ranks = 4, stages = 7, micro_batches = 5;
};

/// A right schedule: any placement, any order that can be run, backwards at once or apart. The same for the same seed.
inline pipeline::Schedule random_schedule(uint64_t seed, const ScheduleLimits& limits = {}) {
  using pipeline::Action;
  using pipeline::Kind;
  Numbers draw(seed);
  const auto ranks = static_cast<int>(draw.from(1, limits.ranks));
  const auto stages = static_cast<int>(draw.from(ranks, limits.stages));
  const auto micro_batches = static_cast<int>(draw.from(1, limits.micro_batches));
  pipeline::Schedule schedule{.stages = stages, .micro_batches = micro_batches, .rank_of = {}, .actions = {}};
  for (int s = 0; s < stages; ++s)
    schedule.rank_of.push_back(s < ranks ? s : static_cast<int>(draw.from(0, ranks - 1)));
  for (size_t i = schedule.rank_of.size() - 1; i > 0; --i)
    std::swap(schedule.rank_of[i], schedule.rank_of[static_cast<size_t>(draw.from(0, static_cast<int64_t>(i)))]);
  schedule.actions.resize(static_cast<size_t>(ranks));
  // What a micro-batch can do next: one thing along the stages, and the weights that it has put off.
  std::vector<Action> ready;
  for (int m = 0; m < micro_batches; ++m) ready.push_back({0, Kind::forward, m});
  while (!ready.empty()) {
    const auto i = static_cast<size_t>(draw.from(0, static_cast<int64_t>(ready.size()) - 1));
    const Action action = ready[i];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(i));
    schedule.actions[static_cast<size_t>(schedule.rank_of[static_cast<size_t>(action.stage)])].push_back(action);
    const auto backward = [&](int stage) {
      return Action{stage, draw.one_in(2) ? Kind::backward : Kind::input, action.micro_batch};
    };
    if (action.kind == Kind::input) ready.push_back({action.stage, Kind::weight, action.micro_batch});
    if (action.kind == Kind::forward)
      ready.push_back(action.stage + 1 < stages ? Action{action.stage + 1, Kind::forward, action.micro_batch}
                                                : backward(action.stage));
    else if (action.kind != Kind::weight && action.stage > 0)
      ready.push_back(backward(action.stage - 1));
  }
  return schedule;
}

/// When each action begins, found without regard to time: each is moved behind what it waits for until none moves. None
/// where they would move for ever, or where an action waits for one that there is not.
inline std::optional<std::vector<std::vector<double>>> begins_by_relaxation(const pipeline::Schedule& schedule,
                                                                            const pipeline::Costs& costs) {
  using pipeline::Action;
  using pipeline::Kind;
  struct Node {
    Action action;
    size_t rank, index;
    std::optional<size_t> to = {};  // the other rank that needs its result
    double arrival = 0;             // there
  };
  std::vector<Node> nodes;
  std::vector<std::vector<double>> begins;
  for (size_t r = 0; r < schedule.actions.size(); ++r) {
    begins.emplace_back(schedule.actions[r].size(), 0.0);
    for (size_t i = 0; i < schedule.actions[r].size(); ++i) nodes.push_back({schedule.actions[r][i], r, i});
  }
  const auto needs = [&](const Action& a, const Action& b) {
    const bool b_goes_back = b.kind == Kind::backward || b.kind == Kind::input;
    if (a.micro_batch != b.micro_batch) return false;
    if (a.kind == Kind::forward) return b.kind == Kind::forward && b.stage == a.stage - 1;
    if (a.kind == Kind::weight) return b.kind == Kind::input && b.stage == a.stage;
    return (b.kind == Kind::forward && b.stage == a.stage) || (b_goes_back && b.stage == a.stage + 1);
  };
  for (const Node& a : nodes)
    for (Node& b : nodes)
      if (a.rank != b.rank && needs(a.action, b.action)) b.to = a.rank;
  const auto end_of = [&](const Node& node) {
    const auto& cost = costs.stages[static_cast<size_t>(node.action.stage)];
    const double length = node.action.kind == Kind::forward  ? cost.forward
                          : node.action.kind == Kind::input  ? cost.input
                          : node.action.kind == Kind::weight ? cost.weight
                                                             : cost.input + cost.weight;
    return begins[node.rank][node.index] + length;
  };
  for (size_t round = 0; round <= 2 * nodes.size(); ++round) {
    bool moved = false;
    const auto move_behind = [&](double& time, double end) {
      moved |= time < end;
      time = std::max(time, end);
    };
    for (Node& a : nodes) {
      move_behind(a.arrival, end_of(a) + costs.transfer);
      for (const Node& b : nodes) {
        const bool follows = a.rank == b.rank && a.index > b.index;
        if (follows && a.to && a.to == b.to) move_behind(a.arrival, b.arrival + costs.transfer);
        if (follows || needs(a.action, b.action))
          move_behind(begins[a.rank][a.index], a.rank == b.rank ? end_of(b) : b.arrival);
      }
    }
    if (!moved) return begins;
  }
  return {};
}

/// Whole costs from 1 on, so that sums are exact and a circle never comes to rest.
inline pipeline::Costs random_costs(uint64_t seed, int stages) {
  Numbers draw(seed);
  const auto cost = [&] { return static_cast<double>(draw.from(1, 9)); };
  pipeline::Costs costs{.stages = {}, .transfer = static_cast<double>(draw.from(0, 4))};
  for (int s = 0; s < stages; ++s) costs.stages.push_back({.forward = cost(), .input = cost(), .weight = cost()});
  return costs;
}

}  // namespace adjoin::testing
