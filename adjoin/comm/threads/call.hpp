#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "adjoin/base/element_type.hpp"
#include "adjoin/base/observer.hpp"
#include "adjoin/comm/collective.hpp"
#include "adjoin/comm/reduction.hpp"

namespace adjoin::threads {

/// What must be the same on all ranks of a group that call a collective.
struct Signature {
  Collective collective = Collective::barrier;
  ElementType type = ElementType::float32;
  Reduction reduction = Reduction::sum;
  int root = -1;
  int64_t count = 0;         // elements of each rank, or of all together where they differ
  uint64_t counts_hash = 0;  // of the counts of the ranks, where there are such
  bool operator==(const Signature&) const = default;
};

/// The counts that came with a call; an all_to_all has both.
struct Counts {
  std::span<const int64_t> send, receive;
};

/// One rank's pending collective, as its peers see it.
struct Call {
  Signature signature;
  const void* in = nullptr;
  void* out = nullptr;
  const Counts* counts = nullptr;
  const Operation* operation = nullptr;
};

std::string describe(const Call& call);

}  // namespace adjoin::threads
