#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/comm/collective.hpp"

namespace adjoin::algorithm {

/// One collective call of a whole group: what its algorithms need to know.
///
/// Regions: broadcast and all_reduce work on `output` in place; the others go from `input` to `output` as in
/// Communicator, each rank with its own counts of elements.
struct Request {
  Collective collective = Collective::barrier;
  int size = 1;
  int root = 0;                      // where it has one
  int64_t count = 0;                 // elements of every rank: broadcast, reduce, all_reduce
  std::vector<int64_t> counts = {};  // gather, scatter, all_gather, reduce_scatter: of each rank; all_to_all: size x
                                     // size, a row a sender
  int64_t chunk = 0;                 // elements of a piece of a pipeline; 0: the whole message is one

  /// The rank as counted from the root, and back.
  int shifted(int rank) const { return (rank - root + size) % size; }
  int actual(int shifted) const { return (shifted + root) % size; }
  /// What one rank sends to another in an all_to_all.
  int64_t between(int from, int to) const {
    return counts[static_cast<size_t>(from) * static_cast<size_t>(size) + static_cast<size_t>(to)];
  }
  /// The pieces that a pipeline cuts the message into; one where it is empty.
  int64_t pieces() const { return chunk == 0 || count == 0 ? 1 : (count + chunk - 1) / chunk; }
};

/// A request of `count` elements where all ranks have as many, else of blocks[r] of rank r; in an all_to_all every rank
/// sends `blocks`.
Request request_of(Collective collective, int root, int64_t count, const std::vector<int64_t>& blocks);

/// The elements of the whole message, or of all blocks together: what the rule table is asked with.
int64_t elements_of(const Request& request);

/// Throws: InvalidArgument where the request is none (its root, counts, chunk) or has no such rank
void check(const Request& request, int rank);
[[noreturn]] void refuse(const Request& request, const std::string& expected, const std::string& came);

}  // namespace adjoin::algorithm
