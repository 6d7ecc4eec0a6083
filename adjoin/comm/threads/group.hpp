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
/// Each rank publishes its calls in kPlaces places in turn. Call n + kPlaces, which reuses the place of call n, is
/// published only after all have come to call n + 1, and so are done with reading call n. Where nobody has to wait, as
/// the root of a small broadcast, a rank may therefore be up to kPlaces calls ahead of its peers.
class Group {
 public:
  /// Whose calls a rank awaits in its own.
  enum class Awaits { all, one, nobody };

  static constexpr uint64_t kPlaces = 32;

  Group(std::shared_ptr<World> world, std::vector<int> world_ranks);
  /// Ends the world where a member never came to a call that another has made.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  World& world() const { return *world_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  /// Up to so many bytes travel inside the published call instead of being read in place, which saves a meeting. Where
  /// every rank has a core a meeting costs less than the copy of some hundred bytes, else as much as that of many.
  int64_t small_bytes() const { return small_bytes_; }
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  /// " on group {2, 3}", or nothing where the group is the whole world.
  std::string name() const;

  // A collective of a rank is publish() and then one of the next four. They throw CommunicationError on all ranks where
  // calls differ or the world is aborted.

  /// Shows the rank's next call to its peers, and gives its number, from 1. With `small_bytes`, that many bytes of
  /// call.in travel with it.
  uint64_t publish(Agent& agent, int rank, const Call& call, int64_t small_bytes, Awaits awaits);
  /// Waits until all ranks have published their calls, and checks that they agree.
  void meet(Agent& agent, int rank, uint64_t sequence);
  /// The same, and what follows until finish() cannot be interrupted, as peers work on each other's memory.
  void meet_to_work(Agent& agent, int rank, uint64_t sequence);
  /// Waits for the call of `peer` alone, and checks that it agrees.
  void meet_one(Agent& agent, int rank, uint64_t sequence, int peer);
  /// Waits for nobody; checks that the calls of those who have come agree.
  void pass(int rank, uint64_t sequence);
  /// Waits until all ranks have come here after their meet_to_work().
  void finish(int rank, uint64_t sequence);

  bool has_come(int rank, uint64_t sequence) const { return place(rank, sequence).sequence.load() >= sequence; }
  /// The call that `rank` published; its `in` is readable until finish(), or where it was small until the next call.
  const Call& call_of(int rank, uint64_t sequence) const { return place(rank, sequence).call; }

  /// Says that one more, or one less, of a member's threads uses the group. Where an exception makes a member let go of it
  /// the calls that it missed mean nothing.
  void hold(int rank) { progress(rank).holders.fetch_add(1); }
  void release(int rank);
  /// Ends the world where a member that never calls again has missed a call which a peer has passed.
  void check_departed();

  Mailbox& mailbox(int rank) { return mailboxes_[static_cast<size_t>(rank)]; }

  /// The next group of `ranks` of this one that `rank`, a member, takes part in; each of them makes it once.
  std::shared_ptr<Group> subset(int rank, std::span<const int> ranks);

  void wake_all();

 private:
  struct alignas(64) Place {
    std::atomic<uint64_t> sequence = 0;  // of the call that was published last
    Call call;
    Awaits awaits = Awaits::all;
    Operation operation;  // where the rank does not await all, which may tell of the call when it has left
  };
  struct alignas(64) Progress {
    std::atomic<uint64_t> finished = 0;
    std::atomic<int> holders = 0;
    uint64_t calls = 0;     // this and the next are the rank's own: how many it has published
    uint64_t all_came = 0;  // the last call to which it has seen all come
  };
  /// What a rank decided about its latest call: 2 * sequence, plus one where it goes ahead.
  struct alignas(64) Decision {
    std::atomic<uint64_t> value = 0;
  };
  struct Forming {
    std::shared_ptr<Group> group;
    size_t joined = 0;
  };

  size_t place_number(int rank, uint64_t sequence) const {
    return kPlaces * static_cast<size_t>(rank) + sequence % kPlaces;
  }
  Place& place(int rank, uint64_t sequence) const { return places_[place_number(rank, sequence)]; }
  std::byte* small_room(int rank, uint64_t sequence) const {
    return small_.get() + place_number(rank, sequence) * static_cast<size_t>(small_bytes_);
  }
  Progress& progress(int rank) const { return progress_[static_cast<size_t>(rank)]; }
  void wait_for_place(Agent& agent, int rank, uint64_t sequence, const Call& call);
  bool wait_for(Agent& agent, int rank, uint64_t sequence, int first, int last);
  void compare(int rank, uint64_t sequence, int first, int last);
  bool goes_ahead(int rank, uint64_t sequence, bool all_came);
  bool sends_what_is_received(uint64_t sequence) const;
  void end_mismatched(uint64_t sequence, bool is_suspected = false);
  [[noreturn]] void leave();

  std::shared_ptr<World> world_;
  std::vector<int> world_ranks_;
  int64_t small_bytes_;
  std::unique_ptr<Place[]> places_;
  std::unique_ptr<Progress[]> progress_;
  std::unique_ptr<Decision[]> decisions_;
  std::unique_ptr<std::byte[]> small_;
  Parking parking_;
  std::vector<Mailbox> mailboxes_;
  std::mutex mutex_;
  std::map<std::pair<std::vector<int>, uint64_t>, Forming> forming_;  // by members, and for the how manieth time
  std::map<std::pair<std::vector<int>, int>, uint64_t> made_;         // by members, and by who has made so many
  std::mutex telling_;  // held while the calls of peers are told, which lie on the peers' stacks
  std::atomic<bool> was_unwound_ = false;
};

}  // namespace adjoin::threads
