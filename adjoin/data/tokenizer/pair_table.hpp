#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "adjoin/base/hash.hpp"

namespace adjoin::data {

/// What two neighbours join to, and with which priority. It is an open-addressed table, since a word looks up each pair of its
/// symbols.
class PairTable {
 public:
  static constexpr uint32_t kNever = ~uint32_t{0};

  struct Joined {
    uint32_t rank = kNever;
    int32_t id = 0;
  };

  explicit PairTable(size_t pairs) : slots_(std::bit_ceil(2 * pairs + 1)) {}

  /// Ids must not be negative. If a pair is put twice, the last one is used.
  void put(int32_t left, int32_t right, Joined joined) {
    Slot& slot = slots_[place_of(key_of(left, right))];
    slot = {key_of(left, right), joined};
  }

  Joined find(int32_t left, int32_t right) const { return slots_[place_of(key_of(left, right))].joined; }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};

  struct Slot {
    uint64_t key = kFree;
    Joined joined;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  /// The slot of a key, or the free slot for it.
  size_t place_of(uint64_t key) const {
    size_t place = mix(key) & (slots_.size() - 1);
    while (slots_[place].key != key && slots_[place].key != kFree) place = (place + 1) & (slots_.size() - 1);
    return place;
  }

  std::vector<Slot> slots_;
};

}  // namespace adjoin::data
