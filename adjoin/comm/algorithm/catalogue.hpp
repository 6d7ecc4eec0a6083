#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/algorithm/rule.hpp"
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
};

/// A request of `count` elements where all ranks have as many, else of blocks[r] of rank r; in an all_to_all every rank
/// sends `blocks`.
Request request_of(Collective collective, int root, int64_t count, const std::vector<int64_t>& blocks);

/// The elements of the whole message, or of all blocks together: what the rule table is asked with.
int64_t elements_of(const Request& request);

/// The algorithms of a collective: "naive", "tree", "ring" …
std::span<const std::string_view> names_of(Collective collective);

/// Whether the algorithm works in pieces of request.chunk elements.
bool is_pipeline(Collective collective, std::string_view algorithm);

/// The catalogue's own copy of the name, which lives on; "" where the collective has no such algorithm.
std::string_view known_name(Collective collective, std::string_view algorithm);
/// "naive, tree, ring", for messages.
std::string list_of_names(Collective collective);

/// Throws: InvalidArgument where the request is none (its root, counts, chunk), has no such rank or no such
///         algorithm.
void check_request(const Request& request, std::string_view algorithm, int rank = 0);

/// The program of one rank.
/// Throws: InvalidArgument as check_request
Program program_of(const Request& request, std::string_view algorithm, int rank);

}  // namespace adjoin::algorithm
