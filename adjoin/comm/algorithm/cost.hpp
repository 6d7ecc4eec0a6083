#pragma once

#include <cstdint>
#include <string_view>

#include "adjoin/comm/algorithm/catalogue.hpp"

namespace adjoin::algorithm {

/// What one rank sends and receives in one call. Empty messages count; an all_to_all by Bruck on a backend also gathers
/// everybody's counts first, which is not counted here.
struct Cost {
  int64_t messages_sent = 0, messages_received = 0;
  int64_t elements_sent = 0, elements_received = 0;
  bool operator==(const Cost&) const = default;
};

/// The cost of one rank by formula, without its program: of P, the rank, the root and sums over blocks of counts.
/// Throws: InvalidArgument as check_request
Cost cost_of(const Request& request, std::string_view algorithm, int rank);

/// The steps of every rank's program.
/// Throws: InvalidArgument as check_request
int64_t steps_of(const Request& request, std::string_view algorithm);

/// A network between equal ranks: seconds that each message takes, and seconds that each byte of it adds.
struct Network {
  double alpha = 0, beta = 0;
};

/// The time until the last rank is done, by formula, where all begin together and only messages take time.
///
/// A message of n bytes takes alpha + beta n. A rank sends one message at a time and receives one at a time, both at
/// once (full duplex, one port each), those of a step in the order in which the program lists them. A message begins
/// when both ends have come to its step and both ports are free; a step ends when all its messages have.
/// Throws: InvalidArgument as check_request, and where counts differ in an algorithm whose formula wants equal ones: tree,
///         doubling, halving, pairwise and bruck.
double seconds_of(const Request& request, std::string_view algorithm, int64_t bytes_per_element,
                  const Network& network);

}  // namespace adjoin::algorithm
