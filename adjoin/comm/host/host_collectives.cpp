// The collectives of HostBackend. Their safety rests on what host/group.hpp says about `meet` and `finish`.

#include <algorithm>
#include <utility>

#include "adjoin/base/copying.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/host/host_backend.hpp"
#include "adjoin/comm/host/world.hpp"

namespace adjoin {

using algorithm::total_of;
using host::PublishedCall;
using host::Room;

namespace {

/// Bytes that are processed and given to all ranks while they are in the nearest caches.
constexpr int64_t kBlockBytes = 16 * 1024;
/// A rank's share is a multiple of this many elements, so that no two ranks write to one cache line of an aligned
/// buffer.
constexpr int64_t kShareUnit = 64;

char* at(void* base, int64_t bytes) {
  return static_cast<char*>(base) + bytes;
}
const char* at(const void* base, int64_t bytes) {
  return static_cast<const char*>(base) + bytes;
}

struct Share {
  int64_t begin, count;
};

/// The elements that `rank` works on in a collective whose work is not divided by the counts.
Share share_of(int rank, int size, int64_t count) {
  const int64_t units = (count + kShareUnit - 1) / kShareUnit;
  const int64_t begin = std::min(count, units * rank / size * kShareUnit);
  const int64_t end = std::min(count, units * (rank + 1) / size * kShareUnit);
  return {begin, end - begin};
}

/// Calls `work(begin, count)` for each block of elements of a share, one after another.
template <class Work>
void for_each_block(const Share& share, ElementType type, Work work) {
  const int64_t step = kBlockBytes / size_of(type), end = share.begin + share.count;
  for (int64_t begin = share.begin; begin < end; begin += step) work(begin, std::min(step, end - begin));
}

int64_t start_of(std::span<const int64_t> counts, int rank) {
  return total_of(counts.first(static_cast<size_t>(rank)));
}

int64_t largest_bytes(const Call& call) {
  return *std::max_element(call.counts.begin(), call.counts.end()) * size_of(call.in.type);
}

}  // namespace

void HostBackend::run_collective(const Call& call) {
  if (!call.algorithm.empty()) return Backend::run_collective(call);
  group_->world().is_of_processes() ? run_staged(call) : run_in_place(call);
}

void HostBackend::run_in_place(const Call& call) {
  using Own = void (HostBackend::*)(const Call&, bool is_small);
  using T = HostBackend;
  static constexpr Own kOwn[kCollectives] = {nullptr,        &T::broadcast,      &T::reduce,
                                             &T::all_reduce, &T::gather,         &T::scatter,
                                             &T::all_gather, &T::reduce_scatter, &T::all_to_all};
  const bool small = is_small(call);
  const bool gives = kind_of(*call.collective).root != CollectiveKind::Root::gives || rank_ == call.root;
  sequence_ = group_->publish(rank_, call, small && gives ? call.in.bytes() : 0, counts_[0]);
  std::swap(counts_[0], counts_[1]);
  small ? group_->meet(waiter(), rank_, sequence_) : group_->meet_to_work(waiter(), rank_, sequence_);
  if (const Own own = kOwn[static_cast<size_t>(*call.collective)]) (this->*own)(call, small);
  if (!small) group_->finish(waiter(), rank_, sequence_);
}

void HostBackend::run_staged(const Call& call) {
  using C = Collective;
  const host::World& world = group_->world();
  const C c = *call.collective;
  if (is_small(call)) return run_in_place(call);
  const bool is_root = call.root == rank_ || call.root < 0;
  const bool peers_read = c != C::gather && (is_root || c == C::reduce);
  const bool peers_write = is_root && c != C::scatter && c != C::reduce_scatter && c != C::all_to_all;
  const bool is_broadcast = c == C::broadcast;  // into every rank's output
  const bool stages_out = (peers_write || is_broadcast) && call.out.bytes() > 0 && !world.reaches(call.out.data);
  const bool stages_in = peers_read && call.in.bytes() > 0 && !world.reaches(call.in.data);
  if (!stages_in && !stages_out) return run_in_place(call);

  const bool is_in_place = stages_in && stages_out && call.in.data == call.out.data;
  const Room out(group_->world().memory(), stages_out ? call.out.bytes() : 0);
  const Room in(group_->world().memory(), stages_in && !is_in_place ? call.in.bytes() : 0);
  Call staged = call;
  if (stages_out) staged.out.data = out.at(0);
  if (stages_in) {
    void* copy = is_in_place ? out.at(0) : in.at(0);
    copy_bytes(copy, call.in.data, call.in.bytes());
    staged.in.data = copy;
  }
  run_in_place(staged);
  const bool has_it = is_broadcast && is_root;
  if (stages_out && !has_it) copy_bytes(call.out.data, staged.out.data, call.out.bytes());
}

bool HostBackend::is_small(const Call& call) const {
  const int64_t most = group_->small_bytes();
  switch (*call.collective) {
    case Collective::all_to_all:
      return false;
    case Collective::gather:
    case Collective::all_gather:
      return largest_bytes(call) <= most;
    case Collective::scatter:
      return total_of(call.counts) * size_of(call.out.type) <= most;
    default:
      return call.in.bytes() <= most;
  }
}

const std::vector<const void*>& HostBackend::inputs(int64_t offset) {
  inputs_.resize(static_cast<size_t>(size()));
  for (int peer = 0; peer < size(); ++peer) inputs_[static_cast<size_t>(peer)] = at(call_of(peer).in, offset);
  return inputs_;
}

const std::vector<void*>& HostBackend::outputs(int64_t offset) {
  outputs_.resize(static_cast<size_t>(size()));
  for (int peer = 0; peer < size(); ++peer) outputs_[static_cast<size_t>(peer)] = at(call_of(peer).out, offset);
  return outputs_;
}

void HostBackend::give_to_all(const void* from, int64_t start, int64_t first, int64_t count, ElementType type,
                              Copy copy) {
  for_each_block({first, count}, type, [&](int64_t begin, int64_t n) {
    const void* block = at(from, (begin - start) * size_of(type));
    for (int peer = 0; peer < size(); ++peer)
      if (void* to = at(call_of(peer).out, begin * size_of(type)); to != block) copy(to, block, n * size_of(type));
  });
}

void HostBackend::broadcast(const Call& call, bool is_small) {
  const Buffer& buffer = call.out;
  if (is_small) {
    if (rank_ != call.root) copy_bytes(buffer.data, call_of(call.root).in, buffer.bytes());
    return;
  }
  // Each rank, including the root, writes its share into every other rank's buffer. The root's may be read-only.
  const Share mine = share_of(rank_, size(), buffer.count);
  give_to_all(call_of(call.root).in, 0, mine.begin, mine.count, buffer.type, copy_for((size() - 1) * buffer.bytes()));
}

void HostBackend::reduce(const Call& call, bool is_small) {
  const ConstBuffer& in = call.in;
  if (is_small) {
    if (rank_ == call.root) reduce_all_into(call.out, inputs(0), call.reduction);
    return;
  }
  const Share mine = share_of(rank_, size(), in.count);
  const int64_t offset = mine.begin * size_of(in.type);
  reduce_all_into({at(call_of(call.root).out, offset), mine.count, in.type}, inputs(offset), call.reduction);
}

void HostBackend::all_reduce(const Call& call, bool is_small) {
  const Buffer& buffer = call.out;
  if (is_small) return reduce_all_into(buffer, inputs(0), call.reduction);
  // Each rank reduces its share and writes it into every rank's buffer.
  const Share mine = share_of(rank_, size(), buffer.count);
  const int64_t offset = mine.begin * size_of(buffer.type);
  reduce_all_into(outputs(offset), buffer.type, mine.count, inputs(offset), call.reduction);
}

void HostBackend::gather(const Call& call, bool is_small) {
  if (is_small) {
    if (rank_ == call.root) collect(call);
    return;
  }
  copy_bytes(at(call_of(call.root).out, start_of(call.counts, rank_) * size_of(call.in.type)), call.in.data,
             call.in.bytes());
}

void HostBackend::scatter(const Call& call, bool) {
  const int64_t item = size_of(call.out.type);
  copy_bytes(call.out.data, at(call_of(call.root).in, start_of(call.counts, rank_) * item), call.out.bytes());
}

void HostBackend::all_gather(const Call& call, bool is_small) {
  if (is_small) return collect(call);
  // Each rank writes its share of the result into every rank's output, whichever ranks' blocks are in that share.
  const Share mine = share_of(rank_, size(), call.out.count);
  const Copy copy = copy_for(size() * call.out.bytes());
  int64_t start = 0;
  for (int owner = 0; owner < size(); ++owner) {
    const int64_t end = start + call.counts[static_cast<size_t>(owner)];
    const int64_t first = std::max(start, mine.begin), last = std::min(end, mine.begin + mine.count);
    give_to_all(call_of(owner).in, start, first, last - first, call.in.type, copy);
    start = end;
  }
}

void HostBackend::reduce_scatter(const Call& call, bool) {
  reduce_all_into(call.out, inputs(start_of(call.counts, rank_) * size_of(call.in.type)), call.reduction);
}

void HostBackend::all_to_all(const Call& call, bool) {
  const int64_t item = size_of(call.in.type);
  const Copy copy = copy_for(size() * call.out.bytes());  // the others' outputs may be larger or smaller
  for (int step = 0; step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    const PublishedCall& theirs = call_of(peer);
    copy(at(call.out.data, start_of(call.receive_counts, peer) * item),
         at(theirs.in, start_of({theirs.counts, static_cast<size_t>(size())}, rank_) * item),
         call.receive_counts[static_cast<size_t>(peer)] * item);
  }
}

void HostBackend::collect(const Call& call) const {
  const int64_t item = size_of(call.in.type);
  const auto place_of = [&](int peer) { return at(call.out.data, start_of(call.counts, peer) * item); };
  // The own block is copied at once: the published copy is not the caller's memory, and `in` may be inside `out`.
  copy_bytes(place_of(rank_), call.in.data, call.in.bytes());
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank_) copy_bytes(place_of(peer), call_of(peer).in, call.counts[static_cast<size_t>(peer)] * item);
}

}  // namespace adjoin
