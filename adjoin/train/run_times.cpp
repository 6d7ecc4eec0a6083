#include "adjoin/train/run_times.hpp"

#include <algorithm>
#include <numeric>

#include "adjoin/comm/values.hpp"

namespace adjoin::train {
namespace {

constexpr size_t kNumbersOfAction = 5;

double in_seconds(int64_t nanoseconds) {
  return 1e-9 * static_cast<double>(nanoseconds);
}

}  // namespace

void RunTimes::begin_step() {
  actions_.clear();
  is_in_step_ = true;
  step_.begin = steady_nanoseconds();
}

void RunTimes::note(const pipeline::Action& action, double seconds) {
  if (!is_in_step_) return;
  const int64_t end = steady_nanoseconds();
  actions_.push_back({action, {end - static_cast<int64_t>(1e9 * seconds), end}});
}

double RunTimes::end_step() {
  step_.end = steady_nanoseconds();
  is_in_step_ = false;
  return in_seconds(step_.size());
}

StepTimes RunTimes::of_step(const lab::Timeline::Interval& interval) {
  const std::vector<lab::RankTimes> ranks = ranks_.of_step(interval, step_);
  if (ranks.empty()) return {};
  sums_.resize(ranks.size());
  lab::RankTimes all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    all += ranks[rank];
    sums_[rank] += ranks[rank];
  }
  const auto count = static_cast<double>(ranks.size());
  const auto slowest = std::ranges::min_element(ranks, {}, &lab::RankTimes::waiting);
  return {.waiting_seconds = all.waiting / count,
          .communicating_seconds = all.communicating / count,
          .slowest_rank = static_cast<int>(slowest - ranks.begin())};
}

std::vector<std::vector<TimedAction>> RunTimes::last_actions() const {
  std::vector<int64_t> mine;
  for (const Noted& noted : actions_)
    mine.insert(mine.end(), {noted.action.stage, static_cast<int64_t>(noted.action.kind), noted.action.micro_batch,
                             ranks_.on_clock_of_rank_0(noted.time.begin), ranks_.on_clock_of_rank_0(noted.time.end)});
  const std::vector<int64_t> counts = numbers_of_all(std::ssize(mine), world_);
  std::vector<int64_t> all(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  world_.gather(const_buffer(mine), buffer(all), counts, 0);
  if (world_.rank() != 0) return {};
  std::vector<std::vector<TimedAction>> ranks;
  auto next = all.begin();
  for (const int64_t count : counts) {
    std::vector<TimedAction>& actions = ranks.emplace_back();
    for (const auto end = next + count; next != end; next += kNumbersOfAction)
      actions.push_back({{static_cast<int>(next[0]), static_cast<pipeline::Kind>(next[1]), static_cast<int>(next[2])},
                         in_seconds(next[3] - step_.begin),
                         in_seconds(next[4] - step_.begin)});
  }
  return ranks;
}

}  // namespace adjoin::train
