#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "adjoin/base/fixed_text.hpp"
#include "adjoin/comm/contract/call.hpp"

namespace adjoin {

/// What is kept of a call: plain data without pointers, for a file or for memory that processes share. Such readers take what
/// they find, without a lock: a torn record gives odd words but no wrong accusation. Whoever keeps it sets the times.
struct CallRecord {
  enum class Kind : uint8_t { other, collective, messages, wait };
  Kind kind = Kind::other;
  FixedText<15> name{}, algorithm{};  // "all_reduce", and "wait" for a wait; "" for the backend's own
                                      // algorithm, where it is Call::moved_type
  ElementType type = ElementType::float32;
  uint64_t group = 0;  // GroupIdentity::id; 0 is the world; also 0 in a wait for an asynchronous operation
  uint64_t number = 0, meeting = 0;  // Call::sequence, Call::meeting
  uint64_t place = 0;                // number among all calls of its rank, from 1, where these are counted
  int64_t count = 0;                 // elements that this rank gives, or gets in a scatter or a recv
  uint64_t elements = 0;             // Signature::elements, the same on all ranks whose sizes agree
  int32_t root = -1, to = -1, from = -1, tag = -1;  // -1: none
  uint32_t line = 0;
  uint16_t exchanged = 0;  // messages of an exchange
  Reduction reduction = Reduction::sum;
  bool has_failed = false;     // was left by an exception
  bool is_beside = false;      // made by another thread of the rank than the one that is observed
  Device device = {};          // of the elements
  FixedText<53> file{};        // without its folders
  int64_t begin = 0, end = 0;  // by the clock of whoever keeps the record; end: 0 while the call is pending

  /// Notes what the call is. Ranks are those of the group, and of several messages only the first one is noted.
  void note(const Call& call);
  /// The same with ranks of the world, and all that the call sends and receives.
  void note_in_world(const Call& call);
  /// Notes where the call was made.
  void note(const Where& where);

  bool is_open() const { return end == 0 || has_failed; }
  int64_t bytes() const { return count * size_of(type); }
  /// "sum"; "" where nothing is reduced.
  std::string_view reduction_name() const;
  /// "trainer.cpp:88".
  std::string where() const;
};
static_assert(std::is_trivially_copyable_v<CallRecord>);

/// "all_reduce #14 (ring, sum, float32 x 1024) at trainer.cpp:88"; `group`, such as " on group {0, 2}", follows the number.
/// Counts of the ranks are included where they are given.
std::string describe(const CallRecord& call, const std::string& group = "", std::span<const int64_t> counts = {},
                     std::span<const int64_t> receive_counts = {});

}  // namespace adjoin
