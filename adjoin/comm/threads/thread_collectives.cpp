// The collectives of ThreadBackend; what is said of `begin` and `finish` in threads/group.hpp holds them together.

#include <algorithm>
#include <limits>

#include "adjoin/base/copying.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/threads/thread_backend.hpp"

namespace adjoin {

using algorithm::total_of;
using threads::Shown;

namespace {

/// Bytes that are worked on and handed to all ranks while they are in the nearest caches.
constexpr int64_t kBlockBytes = 16 * 1024;
/// Elements that a rank's share is a multiple of, so that no two ranks write to one cache line of an aligned buffer.
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

/// The elements that `rank` works on in a collective whose work does not follow from the counts.
Share share_of(int rank, int size, int64_t count) {
  const int64_t units = (count + kShareUnit - 1) / kShareUnit;
  const int64_t begin = std::min(count, units * rank / size * kShareUnit);
  const int64_t end = std::min(count, units * (rank + 1) / size * kShareUnit);
  return {begin, end - begin};
}

/// Calls `work(begin, count)` for blocks of elements of a share in turn.
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

void ThreadBackend::carry_out(const Call& call) {
  using Own = void (ThreadBackend::*)(const Call&);
  using T = ThreadBackend;
  static constexpr Own kOwn[kCollectives] = {&T::barrier,    &T::broadcast,      &T::reduce,
                                             &T::all_reduce, &T::gather,         &T::scatter,
                                             &T::all_gather, &T::reduce_scatter, &T::all_to_all};
  call.algorithm.empty() ? (this->*kOwn[static_cast<size_t>(*call.collective)])(call) : Backend::carry_out(call);
}

bool ThreadBackend::begin(const Call& call, int64_t bytes_of_each, int64_t own_bytes) {
  const bool small = bytes_of_each <= group_->small_bytes();
  sequence_ = group_->publish(rank_, call, small ? own_bytes : 0);
  if (small)
    group_->meet(*agent_, rank_, sequence_);
  else
    group_->meet_to_work(*agent_, rank_, sequence_);
  return small;
}

const std::vector<const void*>& ThreadBackend::inputs(int64_t offset) {
  inputs_.resize(static_cast<size_t>(size()));
  for (int peer = 0; peer < size(); ++peer) inputs_[static_cast<size_t>(peer)] = at(call_of(peer).in, offset);
  return inputs_;
}

const std::vector<void*>& ThreadBackend::outputs(int64_t offset) {
  outputs_.resize(static_cast<size_t>(size()));
  for (int peer = 0; peer < size(); ++peer) outputs_[static_cast<size_t>(peer)] = at(call_of(peer).out, offset);
  return outputs_;
}

void ThreadBackend::give_to_all(const void* from, int64_t start, int64_t first, int64_t count, ElementType type,
                                Copy copy) {
  for_each_block({first, count}, type, [&](int64_t begin, int64_t n) {
    const void* block = at(from, (begin - start) * size_of(type));
    for (int peer = 0; peer < size(); ++peer)
      copy(at(call_of(peer).out, begin * size_of(type)), block, n * size_of(type));
  });
}

void ThreadBackend::barrier(const Call& call) {
  begin(call, 0, 0);
}

void ThreadBackend::broadcast(const Call& call) {
  const Buffer& buffer = call.out;
  if (begin(call, buffer.bytes(), rank_ == call.root ? buffer.bytes() : 0)) {
    if (rank_ != call.root) copy_bytes(buffer.data, call_of(call.root).in, buffer.bytes());
    return;
  }
  // Each rank, the root too, writes its share into every rank's buffer.
  const Share mine = share_of(rank_, size(), buffer.count);
  give_to_all(call_of(call.root).in, 0, mine.begin, mine.count, buffer.type, copy_for((size() - 1) * buffer.bytes()));
  group_->finish(rank_, sequence_);
}

void ThreadBackend::reduce(const Call& call) {
  const ConstBuffer& in = call.in;
  if (begin(call, in.bytes(), in.bytes())) {
    if (rank_ == call.root) reduce_all_into(call.out, inputs(0), call.reduction);
    return;
  }
  const Share mine = share_of(rank_, size(), in.count);
  const int64_t offset = mine.begin * size_of(in.type);
  reduce_all_into({at(call_of(call.root).out, offset), mine.count, in.type}, inputs(offset), call.reduction);
  group_->finish(rank_, sequence_);
}

void ThreadBackend::all_reduce(const Call& call) {
  const Buffer& buffer = call.out;
  if (begin(call, buffer.bytes(), buffer.bytes())) return reduce_all_into(buffer, inputs(0), call.reduction);
  // Each rank reduces its share and writes it into every rank's buffer.
  const Share mine = share_of(rank_, size(), buffer.count);
  const int64_t offset = mine.begin * size_of(buffer.type);
  reduce_all_into(outputs(offset), buffer.type, mine.count, inputs(offset), call.reduction);
  group_->finish(rank_, sequence_);
}

void ThreadBackend::gather(const Call& call) {
  if (begin(call, largest_bytes(call), call.in.bytes())) {
    if (rank_ == call.root) collect(call);
    return;
  }
  copy_bytes(at(call_of(call.root).out, start_of(call.counts, rank_) * size_of(call.in.type)), call.in.data,
             call.in.bytes());
  group_->finish(rank_, sequence_);
}

void ThreadBackend::scatter(const Call& call) {
  const int64_t item = size_of(call.out.type), bytes = total_of(call.counts) * item;
  const bool small = begin(call, bytes, rank_ == call.root ? bytes : 0);
  copy_bytes(call.out.data, at(call_of(call.root).in, start_of(call.counts, rank_) * item), call.out.bytes());
  if (!small) group_->finish(rank_, sequence_);
}

void ThreadBackend::all_gather(const Call& call) {
  if (begin(call, largest_bytes(call), call.in.bytes())) return collect(call);
  // Each rank writes its share of the result, whosever blocks it consists of, into every rank's output.
  const Share mine = share_of(rank_, size(), call.out.count);
  const Copy copy = copy_for(size() * call.out.bytes());
  int64_t start = 0;
  for (int owner = 0; owner < size(); ++owner) {
    const int64_t end = start + call.counts[static_cast<size_t>(owner)];
    const int64_t first = std::max(start, mine.begin), last = std::min(end, mine.begin + mine.count);
    give_to_all(call_of(owner).in, start, first, last - first, call.in.type, copy);
    start = end;
  }
  group_->finish(rank_, sequence_);
}

void ThreadBackend::reduce_scatter(const Call& call) {
  const bool small = begin(call, call.in.bytes(), call.in.bytes());
  reduce_all_into(call.out, inputs(start_of(call.counts, rank_) * size_of(call.in.type)), call.reduction);
  if (!small) group_->finish(rank_, sequence_);
}

void ThreadBackend::all_to_all(const Call& call) {
  const int64_t item = size_of(call.in.type);
  begin(call, std::numeric_limits<int64_t>::max(), 0);
  const Copy copy = copy_for(size() * call.out.bytes());  // the others' outputs may be larger or smaller
  for (int step = 0; step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    const Shown& theirs = call_of(peer);
    copy(at(call.out.data, start_of(call.receive_counts, peer) * item),
         at(theirs.in, start_of(theirs.call->counts, rank_) * item),
         call.receive_counts[static_cast<size_t>(peer)] * item);
  }
  group_->finish(rank_, sequence_);
}

void ThreadBackend::collect(const Call& call) const {
  const int64_t item = size_of(call.in.type);
  const auto place_of = [&](int peer) { return at(call.out.data, start_of(call.counts, peer) * item); };
  // The own block at once: the published copy is not the caller's memory, and `in` may lie in `out`.
  copy_bytes(place_of(rank_), call.in.data, call.in.bytes());
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank_) copy_bytes(place_of(peer), call_of(peer).in, call.counts[static_cast<size_t>(peer)] * item);
}

}  // namespace adjoin
