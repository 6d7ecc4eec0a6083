#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "adjoin/comm/algorithm/catalogue.hpp"

namespace adjoin::lab {

/// The time that one algorithm needs.
struct Contender {
  std::string_view algorithm;
  int64_t chunk = 0;  // bytes of a piece of a pipeline; 0: the whole message is one piece
  double seconds = 0;
};

/// The algorithms of a collective at one number of ranks and one size, fastest first.
struct Contest {
  int ranks = 1;
  int64_t bytes = 0;
  std::vector<Contender> contenders;
};

/// Compares the times given by the formulas of algorithm/catalogue.hpp, which are equal to those of the simulator. `bytes` are
/// those of exercise_of; where the formulas require equal blocks (gather, scatter, all_gather, reduce_scatter, all_to_all),
/// each block is rounded up to whole bytes. A pipeline works in pieces of `chunk` bytes; 0 means the pieces with which it is
/// fastest.
/// Cost: O(P) per algorithm, O(P^2 log P) for all_to_all.
Contest compare(Collective collective, int ranks, int64_t bytes, int64_t chunk, const algorithm::Network& network);

}  // namespace adjoin::lab
