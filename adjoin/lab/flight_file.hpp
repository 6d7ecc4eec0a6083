#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "adjoin/base/ticks.hpp"

/// The bytes of a rank's flight record. The rank writes them in its memory, which the file is mapped to. A reader reads the
/// file while the rank writes, or after the rank was killed between any two stores.
namespace adjoin::lab::flight_file {

inline constexpr std::array<char, 8> kMagic = {'a', 'd', 'j', 'o', 'i', 'n', 'F', '1'};

inline constexpr uint64_t kCalls = 200;
inline constexpr size_t kGroups = 256, kMostGroups = 192, kMembers = 3072, kFiles = 64;

/// One call. `place` is 0 while the rest is being written. `place_again`, at the other end, is written before the rest: where
/// both are the same, everything between them belongs to one call.
struct alignas(64) CallSlot {
  std::atomic<uint64_t> place;
  std::atomic<int64_t> end;  // in ticks; 0: pending; negative: left by an exception
  int64_t begin;
  std::atomic<uint64_t> group, number;
  uint64_t meeting, elements;
  int64_t count;
  int32_t root, to, from, tag;  // ranks of the world
  uint32_t line;
  uint16_t file;            // its index in File::files; kFiles: no room
  uint16_t messages;        // of an exchange
  uint8_t type, reduction;  // the Reduction plus 1; 0: none
  char name[15], algorithm[15];
  std::atomic<uint64_t> place_again;
};
static_assert(sizeof(CallSlot) == 128);

/// The name of a source file, in a hash table by its address, which has a meaning in the writing process alone.
struct FileName {
  std::atomic<const char*> path;
  char text[56];
};

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
  char host[64];
  TickPair first;                                // when the record began
  std::atomic<int64_t> last_ticks, last_steady;  // a later moment
  int64_t to_wall;                               // added to the steady clock gives nanoseconds since 1970
  std::atomic<uint64_t> calls;                   // number of calls begun
  std::atomic<int64_t> wait_begin;               // in ticks; 0: waits for no operation that runs beside it
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
