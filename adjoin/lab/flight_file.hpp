#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "adjoin/base/ticks.hpp"
#include "adjoin/comm/contract/call_record.hpp"

/// The bytes of a rank's flight record. The rank writes them in its memory, which the file is mapped to. A reader reads the
/// file while the rank writes, or after the rank was killed between any two stores.
namespace adjoin::lab::flight_file {

inline constexpr std::array<char, 8> kMagic = {'a', 'd', 'j', 'o', 'i', 'n', 'F', '2'};

inline constexpr uint64_t kCalls = 200;
inline constexpr size_t kGroups = 256, kMostGroups = 192, kMembers = 3072;

/// One call. `place` is 0 while the rest is being written. `place_again`, at the other end, is written before the rest: where
/// both are the same, everything between them belongs to one call.
struct alignas(64) CallSlot {
  std::atomic<uint64_t> place;
  CallRecord call;  // with ranks of the world; times are in ticks; a negative end: left by an exception
  std::atomic<uint64_t> place_again;
};
static_assert(sizeof(CallSlot) == 192);

/// A group, in a hash table by its id; the id is written last. Members are stored in File::members as progressions of first,
/// step and count.
struct GroupSlot {
  std::atomic<uint64_t> id, meeting;  // the last meeting that the rank has begun
  uint32_t members, progressions;     // index of the first, and how many; 0: no room
};

enum class State : uint32_t { runs, tells, ended, failed };  // tells: is writing the failure

struct File {
  std::array<char, 8> magic;
  int32_t rank, ranks;
  int64_t process;
  FixedText<64> host;
  TickPair first;                                // when the record began
  std::atomic<int64_t> last_ticks, last_steady;  // a later moment
  int64_t to_wall;                               // added to the steady clock gives nanoseconds since 1970
  std::atomic<uint64_t> calls;                   // number of calls begun
  std::atomic<int64_t> wait_begin;               // in ticks; 0: waits for no operation that runs beside it
  std::atomic<uint64_t> wait_group, wait_number, world_meeting;
  std::atomic<State> state;
  int64_t failed;  // in ticks
  FixedText<8192> failure;
  GroupSlot groups[kGroups];
  int32_t members[kMembers];
  CallSlot slots[kCalls];
};

}  // namespace adjoin::lab::flight_file
