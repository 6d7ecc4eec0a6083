#include "adjoin/parallel/shared_order.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/comm/values.hpp"

namespace adjoin::parallel {

SharedOrder::SharedOrder(Communicator group, std::vector<int64_t> list, Events events)
    : group_(std::move(group)),
      list_(std::move(list)),
      is_offered_(static_cast<size_t>(events.count)),
      events_(std::move(events)),
      length_(std::ssize(list_)) {}

void SharedOrder::carry_out_next(int64_t wanted) {
  const int64_t event = list_[next_++];
  events_.carry_out(event, event == wanted);
}

void SharedOrder::carry_out_rest() {
  while (next_ < list_.size()) carry_out_next(-1);
}

void SharedOrder::want(int64_t event) {
  const auto next = list_.begin() + static_cast<int64_t>(next_);
  if (const auto at = std::find(next, list_.end(), event); at != list_.end()) {
    for (auto left = at - next + 1; left > 0; --left) carry_out_next(left == 1 ? event : -1);
  } else {
    carry_out_rest();
    round(event);
  }
  reached_.push_back(event);
}

void SharedOrder::offer(int64_t event) {
  is_offered_[static_cast<size_t>(event)] = true;
  reached_.push_back(event);
  while (next_ < list_.size() && is_offered_[static_cast<size_t>(list_[next_])]) carry_out_next(-1);
}

/// Returns whether any rank wanted an event.
bool SharedOrder::round(int64_t wanted) {
  if (!events_.serve) return false;
  const std::vector<int64_t> mine{wanted, std::ssize(reached_), is_part_of_list() ? 1 : 0};
  const auto ranks = static_cast<size_t>(group_.size());
  const std::vector<int64_t> counts(ranks, std::ssize(mine));
  std::vector<int64_t> all(mine.size() * ranks), wants(ranks), lengths(ranks);
  group_.all_gather(const_buffer(mine), buffer(all), counts);
  bool all_are_part = true;
  for (size_t rank = 0; rank < ranks; ++rank) {
    wants[rank] = all[3 * rank];
    lengths[rank] = all[3 * rank + 1];
    all_are_part = all_are_part && all[3 * rank + 2] != 0;
  }
  if (std::ranges::any_of(wants, [](int64_t want) { return want >= 0; })) {
    events_.serve(wants);
    return true;
  }
  if (!all_are_part || std::ranges::max(lengths) != length_) take_longest(lengths);
  return false;
}

/// Whether this rank came to events of the list only, in its order.
bool SharedOrder::is_part_of_list() const {
  auto at = list_.begin();
  for (const int64_t event : reached_) {
    at = std::find(at, list_.end(), event);
    if (at++ == list_.end()) return false;
  }
  return true;
}

void SharedOrder::take_longest(const std::vector<int64_t>& lengths) {
  const auto longest = std::ranges::max_element(lengths);
  length_ = *longest;
  list_.assign(static_cast<size_t>(length_), 0);
  const auto rank = static_cast<int>(longest - lengths.begin());
  if (rank == group_.rank()) list_ = reached_;
  group_.broadcast(buffer(list_), rank);
  for (int64_t event = events_.only_offered; event < events_.count; ++event)
    if (std::ranges::find(list_, event) == list_.end()) list_.push_back(event);
}

void SharedOrder::end() {
  carry_out_rest();
  while (round(-1)) {
  }
  begin_again();
}

void SharedOrder::begin_again() {
  next_ = 0;
  reached_.clear();
  is_offered_.assign(is_offered_.size(), false);
}

}  // namespace adjoin::parallel
