#include "tests/support/programs/wrong.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "tests/support/programs/run.hpp"

namespace adjoin::testing::programs {

namespace {

constexpr int kLostTag = 20000;  // which no right program uses

constexpr std::array<std::string_view, kChanges> kNames = {
    "another operation", "another root",      "another count",  "another type",
    "another reduction", "another algorithm", "a missing call", "an extra call",
    "another order",     "a missing member",  "wrong counts",   "another message",
    "a lost send",       "a lost receive",    "an overlap",     "an exception"};

/// Whether the others' calls are compared with the changed one as soon as both are made, so that no deadlock must be
/// known: a rank's own thread that waits for its helper thread counts as one that goes on.
bool is_told_at_once(Change change) {
  return change <= Change::reduction || change == Change::exception;
}

std::string list_of(const std::vector<int64_t>& counts) {
  std::string text;
  for (const int64_t count : counts) text += (text.empty() ? "" : ", ") + std::to_string(count);
  return text;
}

/// How a report names a collective call.
void name_call(const Step& step, std::vector<std::string>& says) {
  says.push_back(name(step.kind) + " #");
  if (has_root(step.kind)) says.push_back("root " + std::to_string(step.root));
  if (has_reduction(step.kind)) says.emplace_back(adjoin::name(step.reduction));
  if (step.kind == Kind::barrier || step.kind == Kind::all_to_all) return;
  const std::string counts = list_of(step.counts);
  says.push_back(std::string(adjoin::name(step.type)) + " x " +
                 (step.counts.size() == 1 && !is_per_rank(step.kind) ? counts : "{" + counts + "}"));
}

class Changer {
 public:
  Changer(uint64_t seed, const Options& options, bool is_mpi)
      : random_(mix(seed, 0)), options_(options), is_mpi_(is_mpi) {
    wrong_.change = static_cast<Change>(random_.below(kChanges));
    options_.fewest_steps = 3;
    options_.most_steps = 24;
    options_.has_threads = is_told_at_once(wrong_.change);
    wrong_.meant = right_program(seed, options_);
    wrong_.culprit = random_.below(wrong_.meant.ranks());
    wrong_.error = kTold;
  }

  /// Whether the program has a place for the change.
  bool change() {
    wrong_.changed = wrong_.meant;
    switch (wrong_.change) {
      case Change::missing_call:
      case Change::extra_call:
        return change_number_of_calls();
      case Change::order:
        return change_order();
      case Change::missing_member:
        return leave_subset();
      case Change::lost_send:
      case Change::lost_receive:
        return add_lost_message();
      case Change::overlap:
        return overlap();
      case Change::exception:
        return add_exception();
      case Change::algorithm:
        return change_algorithm();
      default:
        return change_call();
    }
  }

  WrongProgram take() { return std::move(wrong_); }

 private:
  std::vector<Step>& steps() { return wrong_.changed.steps; }
  const Group& group_of(const Step& step) const { return wrong_.changed.group_of(step); }
  auto at(int index) { return steps().begin() + index; }
  int new_id() const { return static_cast<int>(wrong_.meant.steps.size()) + 1000; }

  bool has_threads() const {
    return std::any_of(wrong_.meant.steps.begin(), wrong_.meant.steps.end(),
                       [](const Step& step) { return step.kind == Kind::start_thread; });
  }
  /// Whether the backend itself carries it out, rather than messages.
  bool is_plain(const Step& step) const {
    return is_collective(step.kind) && (group_of(step).in_steps >> static_cast<unsigned>(step.kind) & 1) == 0;
  }

  /// A step of the culprit, with others, for which `fits` holds.
  template <class Fits>
  std::optional<int> draw_step(Fits fits) {
    std::vector<int> fitting;
    for (int i = 0; i < static_cast<int>(steps().size()); ++i) {
      const Step& step = *at(i);
      if (wrong_.changed.takes(wrong_.culprit, step) && group_of(step).size() > 1 && fits(step)) fitting.push_back(i);
    }
    if (fitting.empty()) return std::nullopt;
    return random_.one_of(fitting);
  }

  bool needs_others(const Step& step) const {
    const int size = group_of(step).size(), me = group_of(step).rank_of(wrong_.culprit);
    if (step.kind == Kind::ring) return step.shift != 0;
    if (step.kind != Kind::exchange) return is_call(step.kind);
    for (int peer = 0; peer < size; ++peer)
      if (peer != me && (count_between(step, size, me, peer) >= 0 || count_between(step, size, peer, me) >= 0))
        return true;
    return false;
  }

  bool change_call() {
    const auto chosen = draw_step(
        [&](const Step& step) { return needs_others(step) && (!has_threads() || is_plain(step)) && may_change(step); });
    if (!chosen) return false;
    Step& step = *at(*chosen);
    const Step before = step;
    change_arguments(step);
    note(before);
    if (is_plain(before) && is_plain(step)) {
      name_call(before, wrong_.says);
      name_call(step, wrong_.says);
    }
    return true;
  }

  bool may_change(const Step& step) const {
    switch (wrong_.change) {
      case Change::operation:
        return is_collective(step.kind);
      case Change::root:
        return has_root(step.kind);
      case Change::count:
        return is_collective(step.kind) && step.kind != Kind::barrier && step.kind != Kind::all_to_all;
      case Change::type:
        return is_collective(step.kind) && step.kind != Kind::barrier;
      case Change::reduction:
        return has_reduction(step.kind) && step.type != ElementType::boolean;
      case Change::wrong_counts:
        return step.kind == Kind::all_to_all;
      default:
        return !is_collective(step.kind);
    }
  }

  void change_arguments(Step& step) {
    const int size = group_of(step).size();
    switch (wrong_.change) {
      case Change::operation:
        return change_operation(step, size);
      case Change::root:
        step.root = (step.root + random_.between(1, size - 1)) % size;
        return;
      case Change::count:
        return change_count(step.counts[static_cast<size_t>(random_.below(static_cast<int>(step.counts.size())))]);
      case Change::type:
        return change_type(step);
      case Change::reduction: {
        const Reduction before = step.reduction;
        while (step.reduction == before || !is_reducible(step.reduction, step.type))
          step.reduction = static_cast<Reduction>(random_.below(kReductions));
        return;
      }
      case Change::wrong_counts:
        return change_count_of_pair(step, size);
      default:
        return change_message(step, size);
    }
  }

  void change_operation(Step& step, int size) {
    Step other = draw_call(random_, size);
    while (!is_collective(other.kind) || other.kind == step.kind ||
           (has_threads() && !is_plain_on(other.kind, step.group)))
      other = draw_call(random_, size);
    other.id = step.id;
    other.group = step.group;
    other.is_in_run = step.is_in_run;
    step = other;
  }
  bool is_plain_on(Kind kind, int group) const { return is_plain({.kind = kind, .group = group}); }

  void change_count(int64_t& count) { count += count > 0 && random_.chance(50) ? -1 : 1; }

  void change_type(Step& step) {
    const ElementType before = step.type;
    while (step.type == before || (has_reduction(step.kind) && !is_reducible(step.reduction, step.type)))
      step.type = static_cast<ElementType>(random_.below(kElementTypes));
  }

  void change_count_of_pair(Step& step, int size) {
    const int me = group_of(step).rank_of(wrong_.culprit), peer = (me + random_.between(1, size - 1)) % size;
    change_count(random_.chance(50) ? count_between(step, size, me, peer) : count_between(step, size, peer, me));
  }

  void change_message(Step& step, int size) {
    const int what = random_.below(3);
    if (what == 0) {
      step.tag = kLostTag;
    } else if (what == 1) {
      change_type(step);
    } else if (step.kind == Kind::exchange) {
      const int me = group_of(step).rank_of(wrong_.culprit);
      for (int peer = 0; peer < size; ++peer)
        if (int64_t& count = count_between(step, size, me, peer); peer != me && count >= 0) return change_count(count);
      for (int peer = 0; peer < size; ++peer)
        if (int64_t& count = count_between(step, size, peer, me); peer != me && count >= 0) return change_count(count);
    } else {
      change_count(step.counts[0]);
    }
  }

  bool change_algorithm() {
    const auto chosen = draw_step([&](const Step& step) { return is_plain(step) && !group_of(step).is_stream; });
    if (!chosen) return false;
    const Step before = *at(*chosen);
    const auto collective = static_cast<Collective>(before.kind);
    const auto names = algorithm::names_of(collective);
    const int made = static_cast<int>(wrong_.changed.groups.size());
    Group other = group_of(before);
    other.parent = before.group;
    wrong_.changed.groups.push_back(other);
    at(*chosen)->group = made;
    steps().insert(
        at(*chosen),
        {.kind = Kind::with_algorithm,
         .id = new_id(),
         .group = before.group,
         .made = made,
         .collective = collective,
         .algorithm = std::string(names[static_cast<size_t>(random_.below(static_cast<int>(names.size())))])});
    note(before);
    wrong_.says.push_back(name(before.kind) + " #");
    return true;
  }

  bool change_number_of_calls() {
    const auto chosen = draw_step([&](const Step& step) { return needs_others(step); });
    if (!chosen) return false;
    const Step before = *at(*chosen);
    if (is_plain(before)) wrong_.says.push_back(name(before.kind) + " #");
    note(before);
    if (wrong_.change == Change::missing_call) {
      steps().erase(at(*chosen));
    } else {
      steps().insert(at(*chosen) + 1, before);
      at(*chosen + 1)->id = new_id();
    }
    return true;
  }

  /// Two calls in which all wait for all, on two groups that share another rank, one right after the other.
  bool change_order() {
    const auto meets = [&](const Step& step) {
      return is_plain(step) && !group_of(step).is_stream &&
             (step.kind == Kind::barrier || (step.kind == Kind::all_reduce && step.counts[0] > 0));
    };
    const auto chosen = draw_step([&](const Step& step) {
      const int index = static_cast<int>(&step - steps().data()), next = next_of_culprit(index);
      return next >= 0 && meets(step) && meets(*at(next)) && group_of(step).same != group_of(*at(next)).same &&
             shares_another(step, *at(next));
    });
    if (!chosen) return false;
    const int next = next_of_culprit(*chosen);
    note(*at(*chosen));
    for (const int index : {*chosen, next}) wrong_.says.push_back(name(at(index)->kind) + " #");
    std::swap(*at(*chosen), *at(next));
    return true;
  }

  int next_of_culprit(int index) {
    for (int next = index + 1; next < static_cast<int>(steps().size()); ++next)
      if (wrong_.changed.takes(wrong_.culprit, *at(next))) return next;
    return -1;
  }

  bool shares_another(const Step& a, const Step& b) const {
    const std::vector<int>& members = group_of(a).members;
    return std::any_of(members.begin(), members.end(),
                       [&](int rank) { return rank != wrong_.culprit && group_of(b).rank_of(rank) >= 0; });
  }

  bool leave_subset() {
    const auto chosen = draw_step([](const Step& step) { return step.kind == Kind::subset && step.ranks.size() > 1; });
    if (!chosen) return false;
    const Step subset = *at(*chosen);
    note(subset);
    wrong_.says.emplace_back(is_mpi_ ? "subset" : "barrier #");
    std::vector<Step>& meant = wrong_.meant.steps;  // in which the group is used at once
    meant.insert(meant.begin() + *chosen + 1, {.kind = Kind::barrier, .id = new_id(), .group = subset.made});
    std::vector<bool> is_missed(wrong_.changed.groups.size());
    is_missed[static_cast<size_t>(subset.made)] = true;
    for (size_t g = static_cast<size_t>(subset.made) + 1; g < is_missed.size(); ++g)
      is_missed[g] = is_missed[static_cast<size_t>(wrong_.changed.groups[g].parent)];
    std::erase_if(steps(),
                  [&](const Step& step) { return step.id == subset.id || is_missed[static_cast<size_t>(step.group)]; });
    return true;
  }

  bool add_lost_message() {
    const auto chosen = draw_step([](const Step& step) { return is_call(step.kind); });
    if (!chosen) return false;
    const bool sends = wrong_.change == Change::lost_send;
    const int size = group_of(*at(*chosen)).size(), me = group_of(*at(*chosen)).rank_of(wrong_.culprit);
    const int peer = (me + random_.between(1, size - 1)) % size;
    note(*at(*chosen));
    steps().insert(at(*chosen), {.kind = Kind::message,
                                 .id = new_id(),
                                 .group = at(*chosen)->group,
                                 .counts = {random_.below(20)},
                                 .from = sends ? me : peer,
                                 .to = sends ? peer : me,
                                 .tag = kLostTag});
    wrong_.says = {sends ? "send #" : "recv #", "rank " + std::to_string(peer), "tag " + std::to_string(kLostTag)};
    return true;
  }

  bool overlap() {
    const auto chosen = draw_step([&](const Step& step) {
      const int rank = group_of(step).rank_of(wrong_.culprit), size = group_of(step).size();
      if (step.kind == Kind::all_gather)  // not at its own block
        return rank > 0 && step.counts[0] > 0 && step.counts[static_cast<size_t>(rank)] > 0;
      return step.kind == Kind::all_to_all && count_between(step, size, rank, 0) > 0 &&
             count_between(step, size, 0, rank) > 0;
    });
    if (!chosen) return false;
    note(*at(*chosen));
    at(*chosen)->overlaps = true;
    wrong_.error = "InvalidArgument";
    wrong_.says = {"rank " + std::to_string(wrong_.culprit), name(at(*chosen)->kind), kMadeAt};
    return true;
  }

  bool add_exception() {
    const auto chosen = draw_step([](const Step& step) { return is_call(step.kind); });
    if (!chosen) return false;
    wrong_.meant.wraps_errors = wrong_.changed.wraps_errors = random_.chance(50);
    const int exception = random_.below(wrong_.meant.wraps_errors ? 2 : 3), on = at(*chosen)->group;
    note(*at(*chosen));
    if (wrong_.changed.groups[static_cast<size_t>(on)].is_stream && random_.chance(50))
      steps().insert(at(*chosen), {.kind = Kind::wait, .group = on, .target = new_id()});
    steps().insert(at(*chosen), {.kind = Kind::fail, .id = new_id(), .group = on, .shift = exception});
    wrong_.says = {"rank " + std::to_string(wrong_.culprit) + ": the tank is empty"};
    wrong_.error = exception == 0 ? "InvalidArgument" : exception == 1 ? "Error" : kTold;
    return true;
  }

  void note(const Step& step) {
    wrong_.what = std::string(kNames[static_cast<size_t>(wrong_.change)]) + " at step " + describe(step);
  }

  Random random_;
  Options options_;
  const bool is_mpi_;
  WrongProgram wrong_;
};

}  // namespace

WrongProgram wrong_program(uint64_t seed, int mpi_ranks) {
  const Options options =
      mpi_ranks > 0 ? Options{.fewest_ranks = mpi_ranks, .most_ranks = mpi_ranks} : Options{.fewest_ranks = 2};
  for (uint64_t attempt = 0;; ++attempt) {
    Changer changer(attempt == 0 ? seed : mix(seed, attempt), options, mpi_ranks > 0);
    if (changer.change()) return changer.take();
  }
}

}  // namespace adjoin::testing::programs
