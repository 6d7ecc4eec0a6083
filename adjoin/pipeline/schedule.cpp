#include "adjoin/pipeline/schedule.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin::pipeline {
namespace {

struct Numbers {
  int ranks, micro_batches, chunks;
};

using Actions = std::vector<Action>;

void gpipe(Actions& actions, int rank, const Numbers& of) {
  for (const Kind kind : {Kind::forward, Kind::backward})
    for (int m = 0; m < of.micro_batches; ++m) actions.push_back({rank, kind, m});
}

/// A rank is ahead by as many forwards as there are ranks from it to the last one, itself included; then it alternates one
/// backward, one forward.
void one_forward_one_backward(Actions& actions, int rank, const Numbers& of) {
  const int ahead = of.ranks - rank;
  for (int m = 0; m < std::min(ahead, of.micro_batches); ++m) actions.push_back({rank, Kind::forward, m});
  for (int m = 0; m < of.micro_batches; ++m) {
    actions.push_back({rank, Kind::backward, m});
    if (m < of.micro_batches - ahead) actions.push_back({rank, Kind::forward, m + ahead});
  }
}

/// 1f1b in which rank r postpones the gradients of the weights by r micro-batches: it uses the memory that rank 0 needs, which
/// 1f1b leaves unused on the others. The postponed work fills the idle time at the end.
void zero_bubble(Actions& actions, int rank, const Numbers& of) {
  Actions together;
  one_forward_one_backward(together, rank, of);
  for (Action action : together) {
    const bool is_backward = action.kind == Kind::backward;
    if (is_backward) action.kind = Kind::input;
    actions.push_back(action);
    if (is_backward && action.micro_batch >= rank) actions.push_back({rank, Kind::weight, action.micro_batch - rank});
  }
  for (int m = std::max(0, of.micro_batches - rank); m < of.micro_batches; ++m)
    actions.push_back({rank, Kind::weight, m});
}

/// The order in which a rank's chunks process the micro-batches: a group of as many micro-batches as there are ranks goes
/// through one chunk after the other, then the next group. Where the number of ranks does not divide that of the micro-batches,
/// the first group lacks some at its beginning; their numbers in the order are skipped.
class GroupedOrder {
 public:
  explicit GroupedOrder(const Numbers& of)
      : of_(of), missing_((of.ranks - of.micro_batches % of.ranks) % of.ranks), place_(missing_) {}

  bool is_over() const { return group_ * of_.ranks - missing_ >= of_.micro_batches; }
  int64_t number() const { return (group_ * of_.chunks + chunk_) * of_.ranks + place_; }
  int chunk() const { return chunk_; }
  int micro_batch() const { return static_cast<int>(group_ * of_.ranks + place_ - missing_); }

  void advance() {
    if (++place_ < of_.ranks) return;
    if (++chunk_ == of_.chunks) {
      chunk_ = 0;
      ++group_;
    }
    place_ = group_ == 0 ? missing_ : 0;
  }

 private:
  Numbers of_;
  int missing_;
  int64_t group_ = 0;
  int chunk_ = 0, place_;
};

/// Megatron's order for the number of micro-batches rounded up to a multiple of the ranks, without the surplus ones, which are
/// the first. Skipping whole micro-batches keeps the order of the others, so no circle can arise where Megatron's order has
/// none, and no more are in flight. (Skipping the last ones instead takes 1 to 3 % longer, since a step ends with backwards,
/// which are longer than forwards. Larger groups would take up to a sixth less time, but keep more activations.)
void interleaved(Actions& actions, int rank, const Numbers& of) {
  const int64_t ahead = 2 * (of.ranks - 1 - rank) + int64_t{of.chunks - 1} * of.ranks;
  GroupedOrder forward(of), backward(of);
  while (!backward.is_over()) {
    const bool is_forward = !forward.is_over() && forward.number() <= ahead + backward.number();
    GroupedOrder& next = is_forward ? forward : backward;
    const int chunk = is_forward ? next.chunk() : of.chunks - 1 - next.chunk();
    actions.push_back({chunk * of.ranks + rank, is_forward ? Kind::forward : Kind::backward, next.micro_batch()});
    next.advance();
  }
}

struct Recipe {
  std::string_view name;
  void (*add_actions)(Actions& actions, int rank, const Numbers& of);
  int actions_a_micro_batch = 2;
  bool has_chunks = false;
};

constexpr Recipe kRecipes[] = {
    {.name = "gpipe", .add_actions = gpipe},
    {.name = "1f1b", .add_actions = one_forward_one_backward},
    {.name = "interleaved", .add_actions = interleaved, .has_chunks = true},
    {.name = "zb-h1", .add_actions = zero_bubble, .actions_a_micro_batch = 3},
};

void check_numbers(const Recipe& recipe, const Numbers& of) {
  const auto check_number = [](const char* what, int number) {
    require(number >= 1, [&] {
      return std::string("a schedule of ") + std::to_string(number) + " " + what + ", expected 1 or more";
    });
  };
  check_number("ranks", of.ranks);
  check_number("micro-batches", of.micro_batches);
  check_number("chunks", of.chunks);
  require(of.chunks == 1 || recipe.has_chunks, [&] {
    return std::string(recipe.name) + " has one stage on each rank, got " + std::to_string(of.chunks) +
           " chunks: only interleaved can have more than 1";
  });
  const int64_t most = kMostActions / recipe.actions_a_micro_batch;
  require(of.ranks <= most / of.chunks / of.micro_batches, [&] {
    return counted(of.ranks, "rank") + " of " + counted(of.chunks, "stage") + " with " +
           counted(of.micro_batches, "micro-batch", "micro-batches") + " need more than the " + grouped(kMostActions) +
           " actions that a schedule may have";
  });
}

}  // namespace

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const Recipe& recipe : kRecipes) names.push_back(recipe.name);
  return names;
}

bool has_chunks(std::string_view name) {
  const auto* recipe = std::ranges::find(kRecipes, name, &Recipe::name);
  return recipe != std::end(kRecipes) && recipe->has_chunks;
}

Schedule make_schedule(std::string_view name, int ranks, int micro_batches, int chunks) {
  const auto* recipe = std::ranges::find(kRecipes, name, &Recipe::name);
  require(recipe != std::end(kRecipes), [&] {
    return "unknown schedule \"" + std::string(name) + "\", expected one of " + joined(schedule_names());
  });
  const Numbers of{ranks, micro_batches, chunks};
  check_numbers(*recipe, of);
  Schedule schedule{.stages = ranks * chunks, .micro_batches = micro_batches, .rank_of = {}, .actions = {}};
  for (int stage = 0; stage < schedule.stages; ++stage) schedule.rank_of.push_back(stage % ranks);
  schedule.actions.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    Actions& actions = schedule.actions.emplace_back();
    actions.reserve(static_cast<size_t>(int64_t{recipe->actions_a_micro_batch} * micro_batches * chunks));
    recipe->add_actions(actions, rank, of);
  }
  return schedule;
}

std::string text_of(const Action& action) {
  return std::to_string(action.stage) + letter_of(action.kind) + std::to_string(action.micro_batch);
}

Schedule forward_only(const Schedule& stages, int micro_batches) {
  Schedule schedule{stages.stages, micro_batches, stages.rank_of, {}};
  schedule.actions.resize(stages.actions.size());
  const int at_once = stages.ranks();
  for (int first = 0; first < micro_batches; first += at_once)
    for (int stage = 0; stage < stages.stages; ++stage)
      for (int number = first; number < std::min(first + at_once, micro_batches); ++number)
        schedule.actions[static_cast<size_t>(stages.rank_of[static_cast<size_t>(stage)])].push_back(
            {stage, Kind::forward, number});
  return schedule;
}

}  // namespace adjoin::pipeline
