#pragma once

#include <cstdint>
#include <optional>

#include "adjoin/comm/collective.hpp"

namespace adjoin {

/// A collective, or an exchange of messages, that a step will call, told before it runs.
struct PlannedCall {
  std::optional<Collective> collective;  ///< none: an exchange
  int ranks = 1;                         ///< of the group
  int64_t bytes = 0;                     ///< that this rank gives, as Call::bytes()
  bool operator==(const PlannedCall&) const = default;
};

}  // namespace adjoin
