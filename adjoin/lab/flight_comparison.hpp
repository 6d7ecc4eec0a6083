#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/lab/flight_reading.hpp"

namespace adjoin::lab {

/// A point where the ranks of a group differ, according to their flight records.
struct RecordDifference {
  enum class Kind : uint8_t {
    missing,    // some ranks have not begun a collective that others have begun
    different,  // they have begun another collective, or one with other sizes, root, reduction or algorithm
    places,     // they have begun the same one at different places of the code, which may be correct
    message     // a rank waits for a send or a receive that its peer has not begun
  };
  Kind kind = Kind::missing;
  uint64_t group = 0;
  std::vector<int> members{};  // of the group; empty where they are unknown
  uint64_t meeting = 0;        // of a collective
  std::vector<int> absent{};   // ranks that have not begun it
  struct Side {
    std::vector<int> ranks;
    std::string call;  // a description of the call that these have begun
    bool waits;        // none of them has ended the call
  };
  std::vector<Side> sides{};
};

/// For each group: the first meeting that some rank has not begun, and the first one that is different or, where there is none,
/// at different places. Also each message that a rank waits for while its peer has begun none that fits. Nothing is said about
/// ranks without a record, nor about calls that are no longer in the records of two ranks.
std::vector<RecordDifference> differences(const JobRecord& job);

/// "rank 1 never began all_reduce #14 (sum, float32 x 4) at trainer.cpp:88, for which ranks 0, 2 wait".
std::string describe(const RecordDifference& difference, const JobRecord& job);

std::string_view name(RecordDifference::Kind kind);

/// " on group {0, 2}"; "" where the group is the world.
std::string group_text(uint64_t group, const std::vector<int>& members);

}  // namespace adjoin::lab
