#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "adjoin/base/ticks.hpp"

/// The bytes of a rank's flight record. The rank writes them in its memory, which is that of the file; a reader reads the file
/// while the rank writes, or after it was killed between any two stores.
namespace adjoin::lab::flight_file {

inline constexpr std::array<char, 8> kMagic = {'a', 'd', 'j', 'o', 'i', 'n', 'F', '1'};

inline constexpr uint64_t kCalls = 200;
inline constexpr size_t kGroups = 256, kMostGroups = 192, kMembers = 3072, kFiles = 64;

/// One call. `place` is 0 while the rest is being written; `place_again`, at its other end, is written before the rest, so that
/// where both are the same, what lies between is of one call.
struct alignas(64) CallSlot {
  std::atomic<uint64_t> place;
  std::atomic<int64_t> end;  // in ticks; 0: pending; negative: left by an exception
  int64_t begin;
  std::atomic<uint64_t> group, number;
  uint64_t meeting, elements;
  int64_t count;
  int32_t root, to, from, tag;  // ranks of the world
  uint32_t line;
  uint16_t file;            // its place in File::files; kFiles: no room
  uint16_t messages;        // of an exchange
  uint8_t type, reduction;  // 1 more than the Reduction, 0 for none
  char name[15], algorithm[15];
  std::atomic<uint64_t> place_again;
};
static_assert(sizeof(CallSlot) == 128);

/// The name of a file of code, in a hash table by its address, which means something to the writer alone.
struct FileName {
  std::atomic<const char*> path;
  char text[56];
};

/// A group, in a hash table by its id, which is written last. Members are progressions in File::members: first, step, count.
struct GroupSlot {
  std::atomic<uint64_t> id, meeting;  // the last meeting that the rank has begun
  uint32_t members, progressions;     // where they begin, and how many; 0: no room
};

enum class State : uint32_t { runs, tells, ended, failed };  // tells: writes the failure

struct File {
  std::array<char, 8> magic;
  int32_t rank, ranks;
  int64_t process;
  char host[64];
  TickPair first;                                // when the record began
  std::atomic<int64_t> last_ticks, last_steady;  // a later moment
  int64_t to_wall;                               // to be added to the steady clock, for nanoseconds since 1970
  std::atomic<uint64_t> calls;                   // begun
  std::atomic<int64_t> wait_begin;               // in ticks; 0: waits for nothing that goes on beside
  std::atomic<uint64_t> wait_group, wait_number, world_meeting;
  std::atomic<State> state;
  uint32_t failure_length;
  int64_t failed;  // in ticks
  char failure[8192];
  GroupSlot groups[kGroups];
  int32_t members[kMembers];
  FileName files[kFiles];
  CallSlot slots[kCalls];
};

}  // namespace adjoin::lab::flight_file
