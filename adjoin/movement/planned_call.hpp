#pragma once

#include <cstdint>

#include "adjoin/comm/collective.hpp"

namespace adjoin {

/// A collective that a step will call, told before it runs.
struct PlannedCall {
  Collective collective = Collective::all_reduce;
  int ranks = 1;      ///< of the group
  int64_t bytes = 0;  ///< that this rank gives, as Call::bytes()
  bool operator==(const PlannedCall&) const = default;
};

}  // namespace adjoin
