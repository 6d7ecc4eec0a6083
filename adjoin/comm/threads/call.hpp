#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "adjoin/base/element_type.hpp"
#include "adjoin/comm/reduction.hpp"

namespace adjoin::threads {

enum class Collective : uint8_t {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  gather,
  scatter,
  all_gather,
  reduce_scatter,
  all_to_all
};

std::string_view name(Collective collective);

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
  std::source_location where = {};
};

uint64_t hash_of(std::span<const int64_t> counts);

/// "all_reduce (sum, float32 x 1024) at trainer.cpp:88".
std::string describe(const Call& call);
/// "trainer.cpp:88".
std::string describe(const std::source_location& where);

/// The message for calls that do not agree, given with the ranks that made them: it names each that differs from most.
std::string describe_mismatch(std::span<const Call* const> calls, std::span<const int> ranks, uint64_t sequence);

/// "{0, 1, 2}".
std::string list_of(std::span<const int> ranks);

}  // namespace adjoin::threads
