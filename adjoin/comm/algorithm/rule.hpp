#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "adjoin/comm/collective.hpp"

namespace adjoin::algorithm {

inline constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();

/// One line of the rule table: an algorithm, and the calls that it is for.
struct Rule {
  enum class Ranks : uint8_t { any, two, power_of_two };

  Collective collective;
  Ranks ranks;
  int64_t bytes;         // at most so many in all
  int64_t bytes_a_rank;  // and at most so many divided by the ranks
  std::string_view algorithm;
};

/// The rule table: of each collective's lines the first that fits a call is taken, and the last fits every call.
std::span<const Rule> rules();

/// The algorithm that the rule table takes for `bytes` on `size` ranks: of the whole message, or of all blocks together
/// where each rank has one. Every rank must know them, so an all_to_all's are not looked at.
std::string_view choose(Collective collective, int size, int64_t bytes);

/// A network between equal ranks: seconds that each message takes, and seconds that each byte of it adds.
struct Network {
  double alpha = 0, beta = 0;
};

/// The network that the table is made for: 1 us and 10 GB/s, which is usual between the hosts of a cluster.
inline constexpr Network kUsualNetwork{.alpha = 1e-6, .beta = 1e-10};

/// The elements of a piece with which a broadcast by ring is quickest; `count` where one piece is.
int64_t chunk_for(int size, int64_t count, int64_t bytes_per_element, const Network& network = kUsualNetwork);

}  // namespace adjoin::algorithm
