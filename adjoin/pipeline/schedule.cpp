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

Actions gpipe(int rank, const Numbers& of) {
  Actions actions;
  actions.reserve(2 * static_cast<size_t>(of.micro_batches));
  for (const Kind kind : {Kind::forward, Kind::backward})
    for (int m = 0; m < of.micro_batches; ++m) actions.push_back({rank, kind, m});
  return actions;
}

/// A rank is ahead by as many forwards as there are ranks from it to the last one, itself included; then it alternates one
/// backward, one forward.
Actions one_forward_one_backward(int rank, const Numbers& of) {
  Actions actions;
  actions.reserve(2 * static_cast<size_t>(of.micro_batches));
  const int ahead = of.ranks - rank;
  for (int m = 0; m < std::min(ahead, of.micro_batches); ++m) actions.push_back({rank, Kind::forward, m});
  for (int m = 0; m < of.micro_batches; ++m) {
    actions.push_back({rank, Kind::backward, m});
    if (m < of.micro_batches - ahead) actions.push_back({rank, Kind::forward, m + ahead});
  }
  return actions;
}

/// 1f1b in which rank r postpones the gradients of the weights by r micro-batches: it uses the memory that rank 0 needs, which
/// 1f1b leaves unused on the others. The postponed work fills the idle time at the end.
Actions zero_bubble(int rank, const Numbers& of) {
  Actions actions;
  actions.reserve(3 * static_cast<size_t>(of.micro_batches));
  const int ahead = of.ranks - rank;
  for (int m = 0; m < std::min(ahead, of.micro_batches); ++m) actions.push_back({rank, Kind::forward, m});
  for (int m = 0; m < of.micro_batches; ++m) {
    actions.push_back({rank, Kind::input, m});
    if (m >= rank) actions.push_back({rank, Kind::weight, m - rank});
    if (m < of.micro_batches - ahead) actions.push_back({rank, Kind::forward, m + ahead});
  }
  for (int m = std::max(0, of.micro_batches - rank); m < of.micro_batches; ++m)
    actions.push_back({rank, Kind::weight, m});
  return actions;
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
Actions interleaved(int rank, const Numbers& of) {
  Actions actions;
  actions.reserve(2 * static_cast<size_t>(of.micro_batches) * static_cast<size_t>(of.chunks));
  const int64_t ahead = 2 * (of.ranks - 1 - rank) + int64_t{of.chunks - 1} * of.ranks;
  GroupedOrder forward(of), backward(of);
  while (!backward.is_over()) {
    const bool is_forward = !forward.is_over() && forward.number() <= ahead + backward.number();
    GroupedOrder& next = is_forward ? forward : backward;
    const int chunk = is_forward ? next.chunk() : of.chunks - 1 - next.chunk();
    actions.push_back({chunk * of.ranks + rank, is_forward ? Kind::forward : Kind::backward, next.micro_batch()});
    next.advance();
  }
  return actions;
}

struct Recipe {
  std::string_view name;
  Actions (*actions_of)(int rank, const Numbers& of);
  int actions_a_micro_batch = 2;
  bool has_chunks = false;
};

constexpr Recipe kRecipes[] = {
    {.name = "gpipe", .actions_of = gpipe},
    {.name = "1f1b", .actions_of = one_forward_one_backward},
    {.name = "interleaved", .actions_of = interleaved, .has_chunks = true},
    {.name = "zb-h1", .actions_of = zero_bubble, .actions_a_micro_batch = 3},
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
  for (int rank = 0; rank < ranks; ++rank) schedule.actions.push_back(recipe->actions_of(rank, of));
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
