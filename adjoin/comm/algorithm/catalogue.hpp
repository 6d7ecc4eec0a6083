#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/collective.hpp"

/// The algorithms of all collectives by their names. A function that takes a request and the name of an algorithm throws
/// InvalidArgument where the request is none, or the algorithm is not of its collective.
namespace adjoin::algorithm {

/// A network between equal ranks: seconds that each message takes, and seconds that each byte of it adds.
struct Network {
  double alpha = 0, beta = 0;
};

/// The network that algorithms are chosen for: 1 us and 10 GB/s, which is usual between the hosts of a cluster.
inline constexpr Network kUsualNetwork{.alpha = 1e-6, .beta = 1e-10};

/// The algorithms of a collective: "naive", "tree", "ring" …
std::vector<std::string_view> names_of(Collective collective);
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

/// The elements of a piece with which a broadcast by ring is quickest; `count` where one piece is.
int64_t chunk_for(int size, int64_t count, int64_t bytes_per_element, const Network& network = kUsualNetwork);

/// The algorithm that is quickest on the usual network, by seconds_of, for `bytes` on `size` ranks: of the whole message, or
/// of all blocks together, taken as equal, where each rank has one. Of those within a hundredth of the quickest the first of
/// names_of. Every rank must know the bytes, so an all_to_all's are not looked at.
/// Cost: a formula for each algorithm, and O(size)
std::string_view choose(Collective collective, int size, int64_t bytes);

}  // namespace adjoin::algorithm
