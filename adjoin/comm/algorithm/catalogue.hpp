#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/contract/collective.hpp"

/// The algorithms of all collectives by name. A function that takes a request and the name of an algorithm throws
/// InvalidArgument where the request is invalid or the collective has no such algorithm.
namespace adjoin::algorithm {

/// A network between equal ranks: each message takes `alpha` seconds, and each of its bytes adds `beta` seconds.
struct Network {
  double alpha = 0, beta = 0;
};

/// The network that algorithms are chosen for: 1 us and 10 GB/s, usual values between the hosts of a cluster.
inline constexpr Network kUsualNetwork{.alpha = 1e-6, .beta = 1e-10};

/// The algorithms of a collective: "naive", "tree", "ring" …
std::vector<std::string_view> names_of(Collective collective);
/// The catalogue's own copy of the name, which stays valid; "" where the collective has no such algorithm.
std::string_view known_name(Collective collective, std::string_view algorithm);

/// Whether the algorithm works in pieces of request.chunk elements.
bool is_pipeline(Collective collective, std::string_view algorithm);

/// The program of one rank.
Program program_of(const Request& request, std::string_view algorithm, int rank);

/// The number of steps of every rank's program, by formula.
int64_t steps_of(const Request& request, std::string_view algorithm);

/// The time until the last rank is done, by formula, if all begin together and only messages take time.
///
/// A message of n bytes takes alpha + beta n. A rank sends one message at a time and receives one at a time, both at once (full
/// duplex, one port each); messages of a step go in the order in which the program lists them. A message begins when both ends
/// have come to its step and both ports are free; a step ends when all its messages have ended.
/// Of the naive all_gather of blocks that differ it is a lower bound, as there two ranks may send to one rank at once.
/// Throws: InvalidArgument also where counts differ and the algorithm's formula requires equal ones: tree, doubling, halving,
///         pairwise and bruck.
double seconds_of(const Request& request, std::string_view algorithm, int64_t bytes_per_element,
                  const Network& network);

/// The elements of a piece with which a ring broadcast is fastest; `count` where one piece is fastest.
int64_t chunk_for(int size, int64_t count, int64_t bytes_per_element, const Network& network = kUsualNetwork);

/// The algorithm that is fastest on the usual network, by seconds_of, on `size` ranks. `bytes` are those of the whole message
/// or, where each rank has a block, of all blocks together, assumed to be equal. Of the algorithms within a hundredth of the
/// fastest, the first in names_of is chosen. Every rank must know the bytes, so for an all_to_all they are ignored.
/// Cost: one formula for each algorithm, and O(size)
std::string_view choose(Collective collective, int size, int64_t bytes);

}  // namespace adjoin::algorithm
