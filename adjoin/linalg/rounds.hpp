#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "adjoin/comm/async_communicator.hpp"

namespace adjoin::linalg {

/// What a group sends and receives in a round.
using Transfer = std::function<void(const Communicator& group)>;

/// Whether rounds overlap: they do where waiting takes no core from another rank, so that the shorter of travel and work is
/// hidden.
inline bool rounds_overlap(const Communicator& group) {
  return group.backend()->spans_hosts();
}

/// For each round i calls begin(i), which returns a Transfer, and when that is done end(i). Also calls `first`, if given, which
/// needs no round. Where rounds overlap, `first` is called while the first round travels, and each later round begins before
/// the end of the previous one, so that its elements travel in the meantime: two consecutive rounds must not use the same
/// memory.
///
/// All ranks of the group call it with the same number of rounds.
/// Cost: where rounds overlap, the group's stream (Communicator::stream), which the first call makes
template <class Begin, class End>
void in_rounds(const Communicator& group, size_t rounds, const std::function<void()>& first, const Begin& begin,
               const End& end) {
  if (!rounds_overlap(group) || rounds + (first ? 1 : 0) < 2) {
    if (first) first();
    for (size_t i = 0; i < rounds; ++i) {
      begin(i)(group);  // what it held is freed before the end
      end(i);
    }
    return;
  }
  const AsyncCommunicator stream = group.stream();
  const auto begin_travel = [&](size_t i) { return i < rounds ? std::optional(stream.run(begin(i))) : std::nullopt; };
  std::optional<Handle> travels = begin_travel(0);
  if (first) first();
  for (size_t i = 0; i < rounds; ++i) {
    std::optional<Handle> next = begin_travel(i + 1);
    travels->wait();
    end(i);
    travels = std::move(next);
  }
}

}  // namespace adjoin::linalg
