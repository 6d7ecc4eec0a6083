#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "adjoin/comm/algorithm/catalogue.hpp"

namespace adjoin::lab {

/// What one algorithm needs.
struct Contender {
  std::string_view algorithm;
  int64_t chunk = 0;  // bytes of a pipeline's piece; 0: the whole message is one
  double seconds = 0;
};

/// The algorithms of a collective at one number of ranks and one size, the quickest first.
struct Contest {
  int ranks = 1;
  int64_t bytes = 0;
  std::vector<Contender> contenders;
};

/// Compares the times of the closed formulas (algorithm/catalogue.hpp), to which the simulator's are equal. `bytes` are those
/// of exercise_of; where the formulas want equal blocks (gather, scatter, all_gather, reduce_scatter, all_to_all), each
/// is rounded up to whole bytes. A pipeline works in pieces of `chunk` bytes, or with 0 in those with which it is
/// quickest.
/// Cost: O(P) per algorithm, O(P^2 log P) for all_to_all.
Contest compare(Collective collective, int ranks, int64_t bytes, int64_t chunk, const algorithm::Network& network);

}  // namespace adjoin::lab
