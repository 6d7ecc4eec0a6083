#include "adjoin/comm/host/group.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"

namespace adjoin::host {

namespace {

int64_t small_bytes_for(const Patience& patience, size_t ranks) {
  constexpr size_t kRoom = 1 << 20;  // for one group; with more than 128 ranks each has less
  if (patience.spins > 0) return 512;
  return static_cast<int64_t>(std::clamp<size_t>(kRoom / (2 * ranks), 512, 4096));
}

}  // namespace

Group::Group(std::shared_ptr<World> world, std::vector<int> world_ranks, std::shared_ptr<void> memory)
    : world_(std::move(world)),
      world_ranks_(std::move(world_ranks)),
      small_bytes_(small_bytes_for(world_->patience(), world_ranks_.size())),
      memory_(std::move(memory)),
      parking_(static_cast<Head*>(memory_.get())->parking),
      members_(reinterpret_cast<Member*>(static_cast<Head*>(memory_.get()) + 1)),
      cores_(reinterpret_cast<std::atomic<int>*>(members_ + world_ranks_.size())),
      small_(reinterpret_cast<std::byte*>(cores_) + bytes_of_cores(world_ranks_.size())),
      device_events_(world_ranks_.size()) {}

std::shared_ptr<void> Group::memory_for(World& world, size_t ranks) {
  const auto small = static_cast<size_t>(small_bytes_for(world.patience(), ranks));
  const size_t bytes = sizeof(Head) + ranks * (sizeof(Member) + kPlaces * small) + bytes_of_cores(ranks);
  std::pmr::memory_resource& memory = world.memory();
  void* made = memory.allocate(bytes, alignof(Head));
  new (made) Head;
  auto* members = reinterpret_cast<Member*>(static_cast<Head*>(made) + 1);
  for (size_t rank = 0; rank < ranks; ++rank) new (members + rank) Member;
  auto* cores = reinterpret_cast<std::atomic<int>*>(members + ranks);
  for (size_t rank = 0; rank < ranks; ++rank) new (cores + rank) std::atomic<int>(0);
  return {made, [bytes, &memory](void* old) { memory.deallocate(old, bytes, alignof(Head)); }};
}

void Group::release(void* memory) {
  static_cast<Head*>(memory)->releases.fetch_add(1);
}

int Group::releases(const void* memory) {
  return static_cast<const Head*>(memory)->releases.load();
}

uint64_t Group::publish(int rank, const Call& call, int64_t small_bytes, std::pmr::vector<int64_t>& room,
                        bool needs_pieces) {
  if (world_->aborted()) world_->throw_aborted();
  const uint64_t sequence = ++progress(rank).calls;
  Place& mine = place(rank, sequence);
  PublishedCall& shown = mine.shown;
  shown.signature = signature_of(call);
  shown.in = call.in.data;
  shown.out = call.out.data;
  shown.counts = call.counts.data();
  shown.receive_counts = call.receive_counts.data();
  shown.blocks = call.counts.size();
  shown.call = &call;
  shown.needs_pieces = needs_pieces;
  if (world_->is_of_processes()) {
    room.assign(call.counts.begin(), call.counts.end());
    room.insert(room.end(), call.receive_counts.begin(), call.receive_counts.end());
    shown.counts = room.data();
    shown.receive_counts = room.data() + call.counts.size();
    shown.call = nullptr;
    shown.record.note(call);
    shown.has_place.store(call.where.line() > 0);
  }
  if (small_bytes > 0) {
    std::memcpy(small_room(rank, sequence), call.in.data, static_cast<size_t>(small_bytes));
    shown.in = small_room(rank, sequence);
  }
  mine.sequence.store(sequence);
  parking_.wake();
  return sequence;
}

bool Group::all_came(uint64_t sequence) const {
  for (int peer = 0; peer < size(); ++peer)
    if (!has_come(peer, sequence)) return false;
  return true;
}

/// Whether all ranks have come; then their calls agree. Otherwise the world is aborted.
bool Group::wait_for_all(Waiter& waiter, int rank, uint64_t sequence) {
  if (!waiter.wait_briefly(world_->patience(), [&] { return all_came(sequence) || world_->aborted(); })) {
    compare(waiter, rank, sequence);  // some ranks may come much later, or never
    const auto missing = [&] {
      std::vector<int> ranks;
      for (int peer = 0; peer < size(); ++peer)
        if (!has_come(peer, sequence)) ranks.push_back(world_rank(peer));
      return ranks;
    };
    const auto text = [&] { return text_of(rank, sequence) + name(); };
    note_place(waiter, rank, sequence);
    // By reference, as a std::function with many captures allocates.
    waiter.sleep(
        parking_,
        {.is_over = [&] { return all_came(sequence); }, .needs = std::ref(missing), .describe = std::ref(text)});
  }
  const bool came = all_came(sequence);  // read before the comparison: one may come later, into an aborted world
  compare(waiter, rank, sequence);
  return came;
}

void Group::meet(Waiter& waiter, int rank, uint64_t sequence) {
  if (!wait_for_all(waiter, rank, sequence)) leave();
}

void Group::meet_to_work(Waiter& waiter, int rank, uint64_t sequence) {
  const bool all_came = wait_for_all(waiter, rank, sequence);
  if (!may_touch_peers_memory(rank, sequence, all_came)) leave();
  if (sends_what_is_received(sequence)) return;
  end_mismatched(waiter, rank, sequence);
  finish(waiter, rank, sequence);  // peers may still read this rank's counts
  leave();
}

/// Says where this rank's call was made, if the call itself does not.
void Group::note_place(Waiter& waiter, int rank, uint64_t sequence) {
  PublishedCall& mine = place(rank, sequence).shown;
  if (mine.has_place.load()) return;
  if (const auto where = waiter.where()) mine.record.note(*where);
  mine.has_place.store(true);
}

/// Checks this rank's call against those of the ranks that have come.
void Group::compare(Waiter& waiter, int rank, uint64_t sequence) {
  const Signature& mine = call_of(rank, sequence).signature;
  for (int peer = 0; peer < size(); ++peer)
    if (has_come(peer, sequence) && !(call_of(peer, sequence).signature == mine)) {
      end_mismatched(waiter, rank, sequence);
      leave();
    }
}

/// Whether this rank may touch its peers' memory. An abort may reach ranks between their arrival and their leaving, and
/// no rank may leave (and free its buffers) while a peer goes ahead. So: a rank that finds all ranks here, and after
/// that no abort, goes ahead. A rank that finds an abort, and after that a rank missing, leaves. Both cannot happen in
/// one call, because the missing rank comes after the abort. A rank that finds an abort with all ranks here asks its
/// peers, each of which is in the same call and soon says what it found, and does as they do.
bool Group::may_touch_peers_memory(int rank, uint64_t sequence, bool all_came) {
  std::atomic<uint64_t>& mine = progress(rank).decided;
  if (!world_->aborted()) {
    mine.store(2 * sequence + 1, std::memory_order_release);
    return true;
  }
  mine.store(2 * sequence);
  if (!all_came) return false;
  bool anybody = false;
  for (int peer = 0; peer < size(); ++peer) {
    const std::atomic<uint64_t>& theirs = progress(peer).decided;
    while (theirs.load() < 2 * sequence && !world_->has_died(world_rank(peer))) std::this_thread::yield();
    anybody |= theirs.load() >= 2 * sequence + 1;
  }
  return anybody;
}

/// Whether the ranks of an all_to_all send what their peers expect to receive; true for other collectives.
bool Group::sends_what_is_received(uint64_t sequence) const {
  if (call_of(0, sequence).signature.collective != Collective::all_to_all) return true;
  for (int from = 0; from < size(); ++from)
    for (int to = 0; to < size(); ++to)
      if (call_of(from, sequence).counts[to] != call_of(to, sequence).receive_counts[from]) return false;
  return true;
}

std::string Group::text_of(int rank, uint64_t sequence) const {
  const PublishedCall& shown = call_of(rank, sequence);
  if (shown.call) return describe(*shown.call);
  const bool receives = shown.signature.collective == Collective::all_to_all;
  return describe(shown.record, "", {shown.counts, shown.blocks}, {shown.receive_counts, receives ? shown.blocks : 0});
}

/// Ends the world with a report of the calls of those ranks that have come.
///
/// Calls of threads are on their stacks. A rank that took part in a mismatch leaves by leave() only, which waits for
/// the lock; a rank that takes the lock after the world has ended reads nothing.
void Group::end_mismatched(Waiter& waiter, int rank, uint64_t sequence) {
  note_place(waiter, rank, sequence);
  const auto all_have_places = [&] {
    for (int peer = 0; peer < size(); ++peer)
      if (has_come(peer, sequence) && !call_of(peer, sequence).has_place.load()) return false;
    return true;
  };
  // They look for their places now, as they find the same.
  for (int i = 0; i < 100 && !all_have_places() && !world_->aborted(); ++i)
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  const std::lock_guard lock(telling_);
  if (world_->aborted()) return;
  std::vector<diagnosis::Line> calls;
  for (int peer = 0; peer < size(); ++peer)
    calls.push_back({world_rank(peer), has_come(peer, sequence)             ? text_of(peer, sequence)
                                       : world_->has_left(world_rank(peer)) ? "has returned"
                                                                            : "has not made this call"});
  world_->end("mismatched collectives" + name() + ":" + diagnosis::list_of(calls));
}

/// Leaves a call because the world has ended, once no rank reports the call any more.
void Group::leave() {
  { const std::lock_guard lock(telling_); }
  world_->throw_aborted();
}

std::string Group::name() const {
  return diagnosis::group_name(world_ranks_, world_->size());
}

void Group::finish(Waiter& waiter, int rank, uint64_t sequence) {
  progress(rank).finished.store(sequence);
  parking_.wake();
  bool have_all_finished = true;
  for (int peer = 0; peer < size(); ++peer) {
    const auto has_finished = [&] { return progress(peer).finished.load() >= sequence; };
    // Peers that have come to the call are working: there can be no deadlock here.
    if (Parking::wait_briefly(world_->patience(), has_finished)) continue;
    note_place(waiter, rank, sequence);
    const auto needs = [&] { return std::vector<int>{world_rank(peer)}; };
    const auto text = [&] { return text_of(rank, sequence) + name(); };
    waiter.sleep_through(parking_,
                         {.is_over = std::ref(has_finished), .needs = std::ref(needs), .describe = std::ref(text)});
    have_all_finished &= has_finished();
  }
  if (!have_all_finished) leave();
}

std::span<std::atomic<int>> Group::cores() const {
  return {cores_, world_ranks_.size()};
}

void Group::leave_for_good(int rank) {
  member(rank).has_left.store(true);
}

void Group::wake_all() {
  parking_.wake();
  for (int rank = 0; rank < size(); ++rank) mailbox(rank).parking().wake();
}

}  // namespace adjoin::host
