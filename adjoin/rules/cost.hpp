#pragma once

#include <cstdint>
#include <functional>

#include "adjoin/partition/layout.hpp"

namespace adjoin::rules {

/// What a move between two layouts costs, forward and back, in bytes or in what else is to be compared.
using MoveCost = std::function<double(const Layout& from, const Layout& to, int64_t element_bytes)>;
/// The bytes that a worker sends: GlobalMove::cost.
double bytes_sent(const Layout& from, const Layout& to, int64_t element_bytes);

/// A worker computes some elements in the time in which it sends one.
constexpr double kComputed = 0.1;

struct Cost {
  double moved = 0;     ///< of all moves: those of operations, and the sums of weights' gradients over copies
  double computed = 0;  ///< bytes of the elements that a worker computes forward, the most of all workers
  double total = 0;     ///< what is minimised: `moved`, and what computing these bytes costs
};

}  // namespace adjoin::rules
