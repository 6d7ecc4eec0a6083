#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "adjoin/comm/async_communicator.hpp"

namespace adjoin::linalg {

/// What a group does in a round, between the calls before and after.
using Travel = std::function<void(const Communicator& group)>;

/// Calls begin(i), which gives a Travel, and, when that is done, end(i), for each round i. Where rounds overlap, the next
/// one begins before this one's end, so that its elements travel meanwhile; they must not use the same memory.
///
/// All ranks of the group call it with the same number of rounds. Where waiting takes no core from another rank, as
/// between hosts (Backend::spans_hosts), overlapping rounds hide the shorter of travel and work.
/// Cost: overlapping, a group and a thread for as long as it takes
template <class Begin, class End>
void in_rounds(const Communicator& group, size_t rounds, bool overlap, const Begin& begin, const End& end) {
  if (!overlap || rounds < 2) {
    for (size_t i = 0; i < rounds; ++i) {
      const Travel travel = begin(i);
      travel(group);
      end(i);
    }
    return;
  }
  const AsyncCommunicator beside(group);
  std::optional<Handle> travels = beside.run(begin(size_t{0}));
  for (size_t i = 0; i < rounds; ++i) {
    std::optional<Handle> next;
    if (i + 1 < rounds) next = beside.run(begin(i + 1));
    travels->wait();
    end(i);
    travels = std::move(next);
  }
}

}  // namespace adjoin::linalg
