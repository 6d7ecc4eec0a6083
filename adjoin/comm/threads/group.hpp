#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "adjoin/comm/threads/call.hpp"
#include "adjoin/comm/threads/mailbox.hpp"
#include "adjoin/comm/threads/world.hpp"

namespace adjoin::threads {

/// What the members of one group share: their pending calls, where they meet, and their mailboxes.
///
/// Each rank publishes its calls in two places in turn. A rank comes to call n + 2, which reuses the place of call n,
/// only after all have come to call n + 1, and so are done with reading call n.
class Group {
 public:
  Group(std::shared_ptr<World> world, std::vector<int> world_ranks);

  World& world() const { return *world_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  /// Up to so many bytes travel inside the published call instead of being read in place, which saves a meeting. Where
  /// every rank has a core a meeting costs less than the copy of some hundred bytes, else as much as that of many.
  int64_t small_bytes() const { return small_bytes_; }
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  /// " on group {2, 3}", or nothing where the group is the whole world.
  std::string name() const;

  /// Publishes this rank's call number `sequence` (from 1), waits until all ranks have published theirs, and checks
  /// that they agree. With `small`, that many bytes of call.in travel with it. What follows until finish() cannot
  /// be interrupted, as peers work on this rank's memory.
  /// Throws: CommunicationError on all ranks where calls differ, or the world is aborted
  void begin(Agent& agent, int rank, uint64_t sequence, const Call& call, int64_t small_bytes = 0);
  /// Waits until all ranks have come here after their begin(); where peers worked on each other's memory.
  void finish(int rank, uint64_t sequence);

  bool has_come(int rank, uint64_t sequence) const { return slot(rank, sequence).sequence.load() >= sequence; }
  bool all_have_come(uint64_t sequence) const;
  /// The call that `rank` published; its `in` is readable until finish, or until the next begin where it was small.
  const Call& call_of(int rank, uint64_t sequence) const { return slot(rank, sequence).call; }

  Mailbox& mailbox(int rank) { return mailboxes_[static_cast<size_t>(rank)]; }

  /// The group of `ranks` of this one, made for the n-th time by each of its members.
  std::shared_ptr<Group> subset(std::span<const int> ranks, uint64_t nth);

  void wake_all();

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> sequence = 0;  // of the call that was published last
    Call call;
  };
  struct alignas(64) Progress {
    std::atomic<uint64_t> finished = 0;
  };
  /// What a rank decided about its latest call: 2 * sequence, plus one where it goes ahead.
  struct alignas(64) Decision {
    std::atomic<uint64_t> value = 0;
  };
  struct Forming {
    std::shared_ptr<Group> group;
    size_t joined = 0;
  };

  Slot& slot(int rank, uint64_t sequence) const { return slots_[2 * static_cast<size_t>(rank) + sequence % 2]; }
  std::byte* small_room(int rank, uint64_t sequence) const {
    return small_.get() + (2 * static_cast<size_t>(rank) + sequence % 2) * static_cast<size_t>(small_bytes_);
  }
  void wait_for_all(Agent& agent, int rank, uint64_t sequence);
  void check_agreement(int rank, uint64_t sequence);
  bool goes_ahead(int rank, uint64_t sequence);
  bool calls_agree(uint64_t sequence) const;

  std::shared_ptr<World> world_;
  std::vector<int> world_ranks_;
  int64_t small_bytes_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Progress[]> progress_;
  std::unique_ptr<Decision[]> decisions_;
  std::unique_ptr<std::byte[]> small_;
  Parking parking_;
  std::vector<Mailbox> mailboxes_;
  std::mutex mutex_;
  std::map<std::pair<std::vector<int>, uint64_t>, Forming> forming_;
};

}  // namespace adjoin::threads
