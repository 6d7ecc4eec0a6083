#pragma once

#include <cstdint>
#include <string_view>

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::testing {

/// What one rank sends and receives in one call. Empty messages count; an all_to_all by Bruck on a backend also gathers
/// everybody's counts first, which is not counted here.
struct Cost {
  int64_t messages_sent = 0, messages_received = 0;
  int64_t elements_sent = 0, elements_received = 0;
  bool operator==(const Cost&) const = default;
};

/// The cost of one rank by formula, without its program: of P, the rank, the root and sums over blocks of counts.
Cost cost_of(const algorithm::Request& request, std::string_view algorithm, int rank);

}  // namespace adjoin::testing
