#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <span>
#include <vector>

#include "adjoin/base/device_runtime.hpp"
#include "adjoin/comm/contract/call_record.hpp"
#include "adjoin/comm/host/mailbox.hpp"
#include "adjoin/comm/host/world.hpp"

namespace adjoin::host {

/// One rank's pending collective, as its peers see it. For threads, the pointers refer to the rank's stack: they are valid
/// until finish(), and while a mismatch is being reported.
struct PublishedCall {
  Signature signature;
  const void* in = nullptr;
  void* out = nullptr;
  const int64_t *counts = nullptr, *receive_counts = nullptr;
  size_t blocks = 0;                   // of counts
  bool needs_pieces = false;           // it has memory that its peers do not reach
  const Call* call = nullptr;          // set between threads
  CallRecord record;                   // set between processes
  std::atomic<bool> has_place = true;  // false until the record says where the call was made
};

/// What the members of one group share: their pending calls, the place where they meet, and their mailboxes. Threads share one
/// object; each process has its own object over the same memory.
///
/// A collective is a meeting: every rank publishes its call and waits for the calls of all. A rank publishes in two places in
/// turn. When it publishes call n + 2, in the place of call n, all ranks have come to call n + 1, and so none of them reads
/// call n any more.
class Group {
 public:
  /// `memory` is shared by the group and comes from memory_for().
  Group(std::shared_ptr<World> world, std::vector<int> world_ranks, std::shared_ptr<void> memory);
  /// Newly made memory, from the world's, for what `ranks` ranks share.
  static std::shared_ptr<void> memory_for(World& world, size_t ranks);
  /// release: this process no longer uses the memory that a group shares. releases: how many processes have said so.
  static void release(void* memory);
  static int releases(const void* memory);

  World& world() const { return *world_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  /// Up to this many bytes travel inside the published call instead of being read in place, which saves a meeting. Where every
  /// rank has a core, a meeting costs less than a copy of some hundred bytes, else as much as a copy of many hundred.
  int64_t small_bytes() const { return small_bytes_; }
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  /// " on group {2, 3}"; "" where the group is the whole world.
  std::string name() const;

  // For a collective a rank calls publish() and then meet(), or meet_to_work() and finish(). They throw CommunicationError on
  // all ranks where calls differ or the world is aborted.

  /// Shows the rank's next call to its peers, and returns its number, from 1. With `small_bytes` > 0, that many bytes of its
  /// input travel with it. A process copies its counts to `room`, which must stay unchanged until its next call but one.
  uint64_t publish(int rank, const Call& call, int64_t small_bytes, std::pmr::vector<int64_t>& room,
                   bool needs_pieces = false);
  /// Waits until all ranks have published their calls, and checks that they agree.
  void meet(Waiter& waiter, int rank, uint64_t sequence);
  /// The same; what follows until finish() cannot be interrupted, as peers work on each other's memory.
  void meet_to_work(Waiter& waiter, int rank, uint64_t sequence);
  /// Waits until all ranks have called finish() after their meet_to_work().
  void finish(Waiter& waiter, int rank, uint64_t sequence);

  bool has_come(int rank, uint64_t sequence) const { return place(rank, sequence).sequence.load() >= sequence; }
  /// The call that `rank` published; its `in` is readable until finish() or, where it was small, until the next call.
  const PublishedCall& call_of(int rank, uint64_t sequence) const { return place(rank, sequence).shown; }

  Mailbox& mailbox(int rank) { return member(rank).mailbox; }

  /// Of one rank's calls on devices, between threads. Each is recorded again only after a meeting to which all peers come after they
  /// have blocked on it.
  struct DeviceEvents {
    std::unique_ptr<DeviceEvent> ready, done;  // its input is written, and its output may be; it has done its share
  };
  DeviceEvents& device_events(int rank) { return device_events_[static_cast<size_t>(rank)]; }

  /// How a group of processes ends by itself.
  struct Ending {
    std::atomic<uint32_t> writer = 0;  // the process that has begun to write the text; 0: none
    std::atomic<bool> has_ended = false;
    FixedText<16 << 10> text;
  };
  Ending& ending() const { return static_cast<Head*>(memory_.get())->ending; }
  /// The core on which each member last ran, for ThreadCores.
  std::span<std::atomic<int>> cores() const;
  /// Says that this rank's process makes no more calls.
  void leave_for_good(int rank);
  bool has_left(int rank) const { return member(rank).has_left.load(); }

  void wake_all();

 private:
  static constexpr uint64_t kPlaces = 2;
  static size_t bytes_of_cores(size_t ranks) { return (ranks * sizeof(std::atomic<int>) + 63) / 64 * 64; }

  struct alignas(64) Place {
    std::atomic<uint64_t> sequence = 0;  // of the call published last
    PublishedCall shown;
  };
  struct alignas(64) Progress {
    std::atomic<uint64_t> finished = 0;
    std::atomic<uint64_t> decided = 0;  // on its latest call: 2 * sequence, plus one where it goes ahead
    uint64_t calls = 0;                 // how many calls the rank has published; used by the rank alone
  };
  struct alignas(64) Member {
    Place places[kPlaces];
    Progress progress;
    Mailbox mailbox;
    std::atomic<bool> has_left = false;
  };
  /// The group's shared memory begins with this; the members follow, then their cores, and then the room for small messages.
  struct alignas(64) Head {
    Parking parking;
    std::atomic<int> releases = 0;
    Ending ending;
  };

  Member& member(int rank) const { return members_[rank]; }
  Place& place(int rank, uint64_t sequence) const { return member(rank).places[sequence % kPlaces]; }
  std::byte* small_room(int rank, uint64_t sequence) const {
    return small_ + (kPlaces * static_cast<size_t>(rank) + sequence % kPlaces) * static_cast<size_t>(small_bytes_);
  }
  Progress& progress(int rank) const { return member(rank).progress; }
  bool all_came(uint64_t sequence) const;
  bool wait_for_all(Waiter& waiter, int rank, uint64_t sequence);
  void compare(Waiter& waiter, int rank, uint64_t sequence);
  void note_place(Waiter& waiter, int rank, uint64_t sequence);
  bool may_touch_peers_memory(int rank, uint64_t sequence, bool all_came);
  bool sends_what_is_received(uint64_t sequence) const;
  std::string text_of(int rank, uint64_t sequence) const;
  void end_mismatched(Waiter& waiter, int rank, uint64_t sequence);
  [[noreturn]] void leave();

  const std::shared_ptr<World> world_;
  const std::vector<int> world_ranks_;
  const int64_t small_bytes_;
  const std::shared_ptr<void> memory_;
  Parking& parking_;
  Member* const members_;
  std::atomic<int>* const cores_;
  std::byte* const small_;
  std::vector<DeviceEvents> device_events_;  // of each rank
  std::mutex telling_;  // held while the peers' calls, which are on the peers' stacks, are reported
};

}  // namespace adjoin::host
