#include "adjoin/pipeline/walk.hpp"

#include <algorithm>
#include <utility>

namespace adjoin::pipeline {

Walk::Walk(const Schedule& schedule, CostOf cost_of, double transfer)
    : schedule_(schedule),
      cost_of_(std::move(cost_of)),
      transfer_(transfer),
      outputs_(slot(schedule.stages, 0)),
      gradients_(slot(schedule.stages, 0)),
      ranks_(schedule.actions.size()) {}

double Walk::when_ready(const Action& action) const {
  const auto& [stage, kind, m] = action;
  if (kind == Kind::weight) return gradients_[slot(stage, m)].end;
  if (kind == Kind::forward) return stage == 0 ? 0 : outputs_[slot(stage - 1, m)].arrival;
  const double forward = outputs_[slot(stage, m)].end;
  return stage + 1 == schedule_.stages ? forward : std::max(forward, gradients_[slot(stage + 1, m)].arrival);
}

std::optional<Action> Walk::missing_input(const Action& action) const {
  const auto& [stage, kind, m] = action;
  const auto is_missing = [&, m = m](const std::vector<Result>& results, int of) {
    return results[slot(of, m)].end == kNotYet;
  };
  if (kind == Kind::forward) {
    if (stage > 0 && is_missing(outputs_, stage - 1)) return Action{stage - 1, Kind::forward, m};
    return {};
  }
  if (kind == Kind::weight) {
    if (is_missing(gradients_, stage)) return Action{stage, Kind::input, m};
    return {};
  }
  if (is_missing(outputs_, stage)) return Action{stage, Kind::forward, m};
  if (stage + 1 < schedule_.stages && is_missing(gradients_, stage + 1)) return Action{stage + 1, Kind::backward, m};
  return {};
}

void Walk::queue(int rank) {
  Rank& to = ranks_[static_cast<size_t>(rank)];
  if (std::exchange(to.is_queued, true)) return;
  queue_.push_back(rank);
}

/// Only the rank of a neighbouring stage can have been waiting for this.
void Walk::note_end(int rank, const Action& action, double end) {
  if (action.kind == Kind::weight) return;
  const bool is_forward = action.kind == Kind::forward;
  Result& result = (is_forward ? outputs_ : gradients_)[slot(action.stage, action.micro_batch)];
  result = {end, end};
  const int next = action.stage + (is_forward ? 1 : -1);
  if (next < 0 || next >= schedule_.stages) return;
  const int to = schedule_.rank_of[static_cast<size_t>(next)];
  if (to != rank && transfer_ > 0) {
    double& link = links_[{rank, to}];
    result.arrival = link = std::max(link, end) + transfer_;
  }
  queue(to);
}

void Walk::run_rank(int rank, const OnAction& on_action) {
  Rank& me = ranks_[static_cast<size_t>(rank)];
  const std::vector<Action>& actions = schedule_.actions[static_cast<size_t>(rank)];
  for (; me.reached < actions.size(); ++me.reached) {
    const Action& action = actions[me.reached];
    const double ready = when_ready(action);
    if (ready == kNotYet) return;
    const double begin = std::max(me.end, ready);
    me.end = begin + cost_of_(action);
    on_action(rank, action, begin, me.end);
    note_end(rank, action, me.end);
  }
}

void Walk::run(const OnAction& on_action) {
  for (int rank = schedule_.ranks() - 1; rank >= 0; --rank) queue(rank);
  while (!queue_.empty()) {
    const int rank = queue_.back();
    queue_.pop_back();
    run_rank(rank, on_action);
    ranks_[static_cast<size_t>(rank)].is_queued = false;
  }
}

}  // namespace adjoin::pipeline
