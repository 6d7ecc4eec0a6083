// The collectives of HostBackend. Their safety rests on what host/group.hpp says about `meet` and `finish`.

#include <algorithm>
#include <utility>

#include "adjoin/base/copying.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/host/host_backend.hpp"
#include "adjoin/comm/host/world.hpp"

namespace adjoin {

using algorithm::start_of;
using algorithm::total_of;
using host::PublishedCall;

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

int64_t largest_bytes(const Call& call) {
  return *std::max_element(call.counts.begin(), call.counts.end()) * size_of(call.in.type);
}

}  // namespace

HostBackend::Share HostBackend::own_share(int64_t count) const {
  const int64_t units = (count + kShareUnit - 1) / kShareUnit;
  const int64_t begin = std::min(count, units * rank_ / size() * kShareUnit);
  const int64_t end = std::min(count, units * (rank_ + 1) / size() * kShareUnit);
  return {begin, end - begin};
}

void HostBackend::run_collective(const Call& call) {
  if (!call.algorithm.empty()) return Backend::run_collective(call);
  // Asked again: a call without elements is not staged, and may come to processes.
  if (call.is_on_device() && takes_devices(call)) return run_on_device(call);
  run_in_place(call, call, group_->world().is_of_processes() && needs_pieces(call));
}

void HostBackend::compare(const Call& call) {
  sequence_ = group_->publish(rank_, call, 0, counts_[0]);
  std::swap(counts_[0], counts_[1]);
  group_->meet(waiter(), rank_, sequence_);
}

void HostBackend::run_in_place(const Call& shown, const Call& call, bool needs_pieces) {
  using Own = void (HostBackend::*)(const Call&, bool is_small);
  using T = HostBackend;
  static constexpr Own kOwn[kCollectives] = {nullptr,        &T::broadcast,      &T::reduce,
                                             &T::all_reduce, &T::gather,         &T::scatter,
                                             &T::all_gather, &T::reduce_scatter, &T::all_to_all};
  const bool small = is_small(call);
  const bool gives = kind_of(*call.collective).root != CollectiveKind::Root::gives || rank_ == call.root;
  sequence_ = group_->publish(rank_, shown, small && gives ? call.in.bytes() : 0, counts_[0], needs_pieces);
  std::swap(counts_[0], counts_[1]);
  small ? group_->meet(waiter(), rank_, sequence_) : group_->meet_to_work(waiter(), rank_, sequence_);
  bool in_pieces = false;
  for (int peer = 0; !small && peer < size(); ++peer) in_pieces |= call_of(peer).needs_pieces;
  if (in_pieces) return run_in_pieces(call);
  if (const Own own = kOwn[static_cast<size_t>(*call.collective)]) (this->*own)(call, small);
  if (!small) group_->finish(waiter(), rank_, sequence_);
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

const std::vector<const void*>& HostBackend::inputs(const Call& call, int64_t offset) {
  inputs_.resize(static_cast<size_t>(size()));
  for (int peer = 0; peer < size(); ++peer)
    inputs_[static_cast<size_t>(peer)] = at(peer == rank_ ? call.in.data : call_of(peer).in, offset);
  return inputs_;
}

const std::vector<void*>& HostBackend::outputs(const Call& call, int64_t offset) {
  outputs_.resize(static_cast<size_t>(size()));
  for (int peer = 0; peer < size(); ++peer) outputs_[static_cast<size_t>(peer)] = at(output_of(call, peer), offset);
  return outputs_;
}

void HostBackend::give_to_all(const Call& call, const void* from, int64_t start, int64_t first, int64_t count,
                              Copy copy) {
  const int64_t item = size_of(call.out.type), step = kBlockBytes / item;
  for (int64_t begin = first; begin < first + count; begin += step) {
    const void* block = at(from, (begin - start) * item);
    for (int peer = 0; peer < size(); ++peer)
      if (void* to = at(output_of(call, peer), begin * item); to != block)
        copy(to, block, std::min(step, first + count - begin) * item);
  }
}

void HostBackend::broadcast(const Call& call, bool is_small) {
  const Buffer& buffer = call.out;
  if (is_small) {
    if (rank_ != call.root) copy_bytes(buffer.data, call_of(call.root).in, buffer.bytes());
    return;
  }
  // Each rank, including the root, writes its share into every other rank's buffer. The root's may be read-only.
  const Share mine = own_share(buffer.count);
  const void* from = rank_ == call.root ? call.in.data : call_of(call.root).in;
  give_to_all(call, from, 0, mine.begin, mine.count, copy_for((size() - 1) * buffer.bytes()));
}

void HostBackend::reduce(const Call& call, bool is_small) {
  const ConstBuffer& in = call.in;
  if (is_small) {
    if (rank_ == call.root) reduce_all_into(call.out, inputs(call, 0), call.reduction);
    return;
  }
  const Share mine = own_share(in.count);
  const int64_t offset = mine.begin * size_of(in.type);
  reduce_all_into({at(output_of(call, call.root), offset), mine.count, in.type}, inputs(call, offset), call.reduction);
}

void HostBackend::all_reduce(const Call& call, bool is_small) {
  const Buffer& buffer = call.out;
  if (is_small) return reduce_all_into(buffer, inputs(call, 0), call.reduction);
  // Each rank reduces its share and writes it into every rank's buffer.
  const Share mine = own_share(buffer.count);
  const int64_t offset = mine.begin * size_of(buffer.type);
  reduce_all_into(outputs(call, offset), buffer.type, mine.count, inputs(call, offset), call.reduction);
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
  const Share mine = own_share(call.out.count);
  const Copy copy = copy_for(size() * call.out.bytes());
  int64_t start = 0;
  for (int owner = 0; owner < size(); ++owner) {
    const int64_t end = start + call.counts[static_cast<size_t>(owner)];
    const int64_t first = std::max(start, mine.begin), last = std::min(end, mine.begin + mine.count);
    give_to_all(call, owner == rank_ ? call.in.data : call_of(owner).in, start, first, last - first, copy);
    start = end;
  }
}

void HostBackend::reduce_scatter(const Call& call, bool) {
  reduce_all_into(call.out, inputs(call, start_of(call.counts, rank_) * size_of(call.in.type)), call.reduction);
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
