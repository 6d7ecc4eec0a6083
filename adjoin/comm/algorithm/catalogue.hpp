#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/algorithm/request.hpp"
#include "adjoin/comm/algorithm/rule.hpp"

/// The algorithms of all collectives by their names. A function that takes a request and the name of an algorithm throws
/// InvalidArgument where the request is none, or the algorithm is not of its collective.
namespace adjoin::algorithm {

/// The algorithms of a collective: "naive", "tree", "ring" …
std::vector<std::string_view> names_of(Collective collective);
/// "naive, tree, ring", for messages.
std::string list_of_names(Collective collective);
/// The catalogue's own copy of the name, which lives on; "" where the collective has no such algorithm.
std::string_view known_name(Collective collective, std::string_view algorithm);

/// Whether the algorithm works in pieces of request.chunk elements.
bool is_pipeline(Collective collective, std::string_view algorithm);

/// The program of one rank.
Program program_of(const Request& request, std::string_view algorithm, int rank);

/// The steps of every rank's program, by formula.
int64_t steps_of(const Request& request, std::string_view algorithm);

/// The time until the last rank is done, by formula, where all begin together and only messages take time.
///
/// A message of n bytes takes alpha + beta n. A rank sends one message at a time and receives one at a time, both at
/// once (full duplex, one port each), those of a step in the order in which the program lists them. A message begins
/// when both ends have come to its step and both ports are free; a step ends when all its messages have.
/// Throws: InvalidArgument also where counts differ in an algorithm whose formula wants equal ones: tree, doubling,
///         halving, pairwise and bruck.
double seconds_of(const Request& request, std::string_view algorithm, int64_t bytes_per_element,
                  const Network& network);

}  // namespace adjoin::algorithm
