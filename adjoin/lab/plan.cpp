#include "adjoin/lab/plan.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "adjoin/base/error.hpp"

namespace adjoin::lab {

using algorithm::Transfer;

Plan::Plan(const algorithm::Program& program, int rank, int ranks, int64_t bytes_per_element) {
  std::vector<Item> step;
  for (const algorithm::Step& given : program.steps) {
    step.clear();
    for (const Transfer& transfer : given.transfers) {
      require(transfer.peer >= 0 && transfer.peer < ranks, [&] {
        return "the program of rank " + std::to_string(rank) + ": expected peers from 0 to " +
               std::to_string(ranks - 1) + ", got " + std::to_string(transfer.peer);
      });
      step.push_back({.shift = (transfer.peer - rank + ranks) % ranks,
                      .place = static_cast<int32_t>(step.size()),
                      .bytes = transfer.slice.count * bytes_per_element,
                      .is_send = transfer.kind == Transfer::Kind::send});
    }
    std::sort(step.begin(), step.end(), [](const Item& a, const Item& b) {
      return std::tie(a.is_send, a.shift, a.place) < std::tie(b.is_send, b.shift, b.place);
    });
    add(step);
  }
}

void Plan::add(std::span<const Item> step) {
  ++steps_;
  if (!runs_.empty()) {
    Run& last = runs_.back();
    if (std::equal(step.begin(), step.end(), items_.begin() + static_cast<std::ptrdiff_t>(last.first), items_.end())) {
      ++last.repeats;
      return;
    }
  }
  runs_.push_back({.first = items_.size(), .count = step.size(), .repeats = 1});
  items_.insert(items_.end(), step.begin(), step.end());
}

std::span<const Plan::Item> Plan::items(const Cursor& at) const {
  const Run& run = runs_[at.run];
  return {items_.data() + run.first, run.count};
}

void Plan::advance(Cursor& at) const {
  ++at.step;
  if (++at.repeat < runs_[at.run].repeats) return;
  at.repeat = 0;
  ++at.run;
}

}  // namespace adjoin::lab
