#include <algorithm>
#include <array>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "adjoin/pipeline/walk.hpp"

namespace adjoin::pipeline {
namespace {

using Columns = std::vector<std::vector<int>>;

constexpr int kMostWaitsTold = 4;

/// One bit for each kind of action that a stage has done to a micro-batch.
uint8_t bit_of(Kind kind) {
  return static_cast<uint8_t>(1 << static_cast<int>(kind));
}

/// What a kind excludes besides itself: a backward is an input and a weight at once.
uint8_t rivals_of(Kind kind) {
  if (kind == Kind::forward) return bit_of(Kind::forward);
  const auto backward = bit_of(Kind::backward);
  if (kind == Kind::backward) return static_cast<uint8_t>(backward | bit_of(Kind::input) | bit_of(Kind::weight));
  return static_cast<uint8_t>(backward | bit_of(kind));
}

/// A schedule, with names for the places of its actions.
class Checker {
 public:
  Checker(const Schedule& schedule, const Columns& columns) : schedule_(schedule), columns_(columns) {}

  void check_sizes() const;
  void check_actions() const;
  void check_that_none_is_missing() const;
  void check_for_circles() const;

 private:
  const std::vector<Action>& actions_of(int rank) const { return schedule_.actions[static_cast<size_t>(rank)]; }
  int rank_of(int stage) const { return schedule_.rank_of[static_cast<size_t>(stage)]; }
  int column_of(int rank, size_t index) const {
    return columns_.empty() ? static_cast<int>(index) + 1 : columns_[static_cast<size_t>(rank)][index];
  }
  /// "rank 1, column 7 ("0F3")"
  std::string place_of(int rank, size_t index) const {
    return "rank " + std::to_string(rank) + ", column " + std::to_string(column_of(rank, index)) + " (\"" +
           text_of(actions_of(rank)[index]) + "\")";
  }
  void check_range(int rank, size_t index) const;
  [[noreturn]] void refuse_repeated(int rank, size_t index) const;
  [[noreturn]] void refuse_missing(int stage, int micro_batch, uint8_t done) const;
  [[noreturn]] void refuse_circle(const Walk& walk, int rank) const;
  /// The action that the first action that has not run on a rank waits for.
  Action missing_of(const Walk& walk, int rank) const;

  const Schedule& schedule_;
  const Columns& columns_;
};

void Checker::check_sizes() const {
  const auto& [stages, micro_batches, rank_of, actions] = schedule_;
  require(stages >= 1 && micro_batches >= 1 && !actions.empty(),
          "a schedule needs at least 1 rank, 1 stage and 1 micro-batch");
  require(rank_of.size() == static_cast<size_t>(stages), [&, stages = stages, given = rank_of.size()] {
    return "the schedule has " + counted(stages, "stage") + ", but names ranks for " + std::to_string(given);
  });
  require(stages <= kMostActions / 2 / micro_batches, [&, stages = stages, micro_batches = micro_batches] {
    return counted(stages, "stage") + " with " + counted(micro_batches, "micro-batch", "micro-batches") +
           " need more than the " + grouped(kMostActions) + " actions that a schedule may have";
  });
  for (int stage = 0; stage < stages; ++stage)
    require(this->rank_of(stage) >= 0 && this->rank_of(stage) < schedule_.ranks(), [&] {
      return "stage " + std::to_string(stage) + " is on rank " + std::to_string(this->rank_of(stage)) +
             ", expected 0 to " + std::to_string(schedule_.ranks() - 1);
    });
  for (int rank = 0; rank < schedule_.ranks(); ++rank)
    require(!actions_of(rank).empty(), [&] { return "rank " + std::to_string(rank) + " has no action"; });
}

void Checker::check_range(int rank, size_t index) const {
  const auto& [stage, kind, micro_batch] = actions_of(rank)[index];
  require(kind <= Kind::weight, "an action of the schedule has an unknown kind");
  require(stage >= 0 && stage < schedule_.stages, [&] {
    return place_of(rank, index) + ": expected stages from 0 to " + std::to_string(schedule_.stages - 1);
  });
  require(micro_batch >= 0 && micro_batch < schedule_.micro_batches, [&] {
    return place_of(rank, index) + ": expected micro-batches from 0 to " + std::to_string(schedule_.micro_batches - 1);
  });
  require(rank_of(stage) == rank, [&, stage = stage] {
    return place_of(rank, index) + ": stage " + std::to_string(stage) + " is on rank " + std::to_string(rank_of(stage));
  });
}

void Checker::check_actions() const {
  for (int rank = 0; rank < schedule_.ranks(); ++rank)
    for (size_t i = 0; i < actions_of(rank).size(); ++i) check_range(rank, i);
}

void Checker::check_that_none_is_missing() const {
  const auto micro_batches = static_cast<size_t>(schedule_.micro_batches);
  std::vector<uint8_t> done(static_cast<size_t>(schedule_.stages) * micro_batches);
  for (int rank = 0; rank < schedule_.ranks(); ++rank)
    for (size_t i = 0; i < actions_of(rank).size(); ++i) {
      const auto& [stage, kind, micro_batch] = actions_of(rank)[i];
      uint8_t& kinds = done[static_cast<size_t>(stage) * micro_batches + static_cast<size_t>(micro_batch)];
      if ((kinds & rivals_of(kind)) != 0) refuse_repeated(rank, i);
      kinds |= bit_of(kind);
    }
  const uint8_t at_once = bit_of(Kind::forward) | bit_of(Kind::backward),
                apart = bit_of(Kind::forward) | bit_of(Kind::input) | bit_of(Kind::weight);
  for (size_t i = 0; i < done.size(); ++i)
    if (done[i] != at_once && done[i] != apart)
      refuse_missing(static_cast<int>(i / micro_batches), static_cast<int>(i % micro_batches), done[i]);
}

void Checker::refuse_repeated(int rank, size_t index) const {
  const std::vector<Action>& actions = actions_of(rank);
  const Action& action = actions[index];
  const auto first = std::ranges::find_if(actions, [&](const Action& other) {
    return other.stage == action.stage && other.micro_batch == action.micro_batch &&
           (bit_of(other.kind) & rivals_of(action.kind)) != 0;
  });
  const int column = column_of(rank, static_cast<size_t>(first - actions.begin()));
  throw InvalidArgument(
      place_of(rank, index) + ": column " + std::to_string(column) +
      (*first == action ? " has this action already" : " has \"" + text_of(*first) + "\", and B does both I and W"));
}

void Checker::refuse_missing(int stage, int micro_batch, uint8_t done) const {
  const auto has = [&](Kind kind) { return (done & bit_of(kind)) != 0; };
  const Kind missing = !has(Kind::forward) ? Kind::forward
                       : has(Kind::input)  ? Kind::weight
                       : has(Kind::weight) ? Kind::input
                                           : Kind::backward;
  const int rank = rank_of(stage);
  throw InvalidArgument("rank " + std::to_string(rank) + " ends at column " +
                        std::to_string(column_of(rank, actions_of(rank).size() - 1)) + " without \"" +
                        text_of({stage, missing, micro_batch}) + "\"");
}

void Checker::check_for_circles() const {
  Walk walk(
      schedule_, [](const Action&) { return 0.0; }, 0);
  walk.run([](int, const Action&, double, double) {});
  for (int rank = 0; rank < schedule_.ranks(); ++rank)
    if (walk.reached(rank) < actions_of(rank).size()) refuse_circle(walk, rank);
}

Action Checker::missing_of(const Walk& walk, int rank) const {
  Action missing = *walk.missing_input(actions_of(rank)[walk.reached(rank)]);
  const std::vector<Action>& there = actions_of(rank_of(missing.stage));
  if (missing.kind == Kind::backward && std::ranges::find(there, missing) == there.end()) missing.kind = Kind::input;
  return missing;
}

/// Each rank that waits does so for a later action of a rank that waits: following these leads to a circle.
void Checker::refuse_circle(const Walk& walk, int rank) const {
  const auto next_of = [&](int of) { return rank_of(missing_of(walk, of).stage); };
  for (int steps = 0; steps < schedule_.ranks(); ++steps) rank = next_of(rank);
  std::string text;
  int told = 0;
  for (int at = rank; told == 0 || at != rank; at = next_of(at)) {
    if (++told > kMostWaitsTold) {
      text += "; …";
      break;
    }
    text += (told == 1 ? "" : "; ") + place_of(at, walk.reached(at)) + " waits for \"" + text_of(missing_of(walk, at)) +
            "\", which comes later on rank " + std::to_string(next_of(at));
  }
  throw InvalidArgument("the actions wait in a circle: " + text);
}

}  // namespace

void check(const Schedule& schedule) {
  check(schedule, {});
}

void check(const Schedule& schedule, const Columns& columns) {
  const Checker checker(schedule, columns);
  checker.check_sizes();
  checker.check_actions();
  checker.check_that_none_is_missing();
  checker.check_for_circles();
}

}  // namespace adjoin::pipeline
