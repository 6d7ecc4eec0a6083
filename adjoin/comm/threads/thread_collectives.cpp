// The collectives of ThreadBackend; what is said of `begin` and `finish` in threads/group.hpp holds them together.

#include <algorithm>
#include <limits>
#include <numeric>

#include "adjoin/base/copying.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/threads/thread_backend.hpp"

namespace adjoin {

using algorithm::total_of;
using threads::Call;
using threads::Counts;
using threads::Signature;

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
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

}  // namespace

bool ThreadBackend::begin(Call call, int64_t bytes_of_each, int64_t own_bytes) {
  const bool small = bytes_of_each <= group_->small_bytes();
  call.operation = call_;
  sequence_ = group_->publish(rank_, call, small ? own_bytes : 0);
  if (small)
    group_->meet(*agent_, rank_, sequence_);
  else
    group_->meet_to_work(*agent_, rank_, sequence_);
  return small;
}

void ThreadBackend::finish() {
  group_->finish(rank_, sequence_);
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

void ThreadBackend::barrier() {
  begin({.signature = {.collective = Collective::barrier}}, 0, 0);
}

void ThreadBackend::broadcast(Buffer buffer, int root) {
  const Signature signature{
      .collective = Collective::broadcast, .type = buffer.type, .root = root, .count = buffer.count};
  const Call call{.signature = signature, .in = buffer.data, .out = buffer.data};
  const int64_t given = rank_ == root ? buffer.bytes() : 0;
  if (begin(call, buffer.bytes(), given)) {
    if (rank_ != root) copy_bytes(buffer.data, call_of(root).in, buffer.bytes());
    return;
  }
  // Each rank, the root too, writes its share into every rank's buffer.
  const void* from = call_of(root).in;
  const Share mine = share_of(rank_, size(), buffer.count);
  give_to_all(from, 0, mine.begin, mine.count, buffer.type, copy_for((size() - 1) * buffer.bytes()));
  finish();
}

void ThreadBackend::reduce(ConstBuffer in, Buffer out, Reduction reduction, int root) {
  const Signature signature{
      .collective = Collective::reduce, .type = in.type, .reduction = reduction, .root = root, .count = in.count};
  const Call call{.signature = signature, .in = in.data, .out = out.data};
  if (begin(call, in.bytes(), in.bytes())) {
    if (rank_ == root) reduce_all_into(out, inputs(0), reduction);
    return;
  }
  const Share mine = share_of(rank_, size(), in.count);
  const int64_t offset = mine.begin * size_of(in.type);
  reduce_all_into({at(call_of(root).out, offset), mine.count, in.type}, inputs(offset), reduction);
  finish();
}

void ThreadBackend::all_reduce(Buffer buffer, Reduction reduction) {
  const Signature signature{
      .collective = Collective::all_reduce, .type = buffer.type, .reduction = reduction, .count = buffer.count};
  if (begin({.signature = signature, .in = buffer.data, .out = buffer.data}, buffer.bytes(), buffer.bytes())) {
    reduce_all_into(buffer, inputs(0), reduction);
    return;
  }
  // Each rank reduces its share and writes it into every rank's buffer.
  const Share mine = share_of(rank_, size(), buffer.count);
  const int64_t offset = mine.begin * size_of(buffer.type);
  reduce_all_into(outputs(offset), buffer.type, mine.count, inputs(offset), reduction);
  finish();
}

void ThreadBackend::gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  const int64_t item = size_of(in.type);
  const Counts given{counts, {}};
  const Signature signature{.collective = Collective::gather,
                            .type = in.type,
                            .root = root,
                            .count = total_of(counts),
                            .counts_hash = hash_of(counts)};
  const int64_t largest = *std::max_element(counts.begin(), counts.end()) * item;
  const Call call{.signature = signature, .in = in.data, .out = out.data, .counts = &given};
  if (!begin(call, largest, in.bytes())) {
    copy_bytes(at(call_of(root).out, start_of(counts, rank_) * item), in.data, in.bytes());
    finish();
  } else if (rank_ == root) {
    for (int peer = 0; peer < size(); ++peer)
      copy_bytes(at(out.data, start_of(counts, peer) * item), call_of(peer).in,
                 counts[static_cast<size_t>(peer)] * item);
  }
}

void ThreadBackend::scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  const int64_t item = size_of(out.type), total = total_of(counts);
  const Counts given{counts, {}};
  const Signature signature{.collective = Collective::scatter,
                            .type = out.type,
                            .root = root,
                            .count = total,
                            .counts_hash = hash_of(counts)};
  const bool small =
      begin({.signature = signature, .in = in.data, .counts = &given}, total * item, rank_ == root ? total * item : 0);
  copy_bytes(out.data, at(call_of(root).in, start_of(counts, rank_) * item), out.bytes());
  if (!small) finish();
}

void ThreadBackend::all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts) {
  const int64_t item = size_of(in.type);
  const Counts given{counts, {}};
  const Signature signature{
      .collective = Collective::all_gather, .type = in.type, .count = total_of(counts), .counts_hash = hash_of(counts)};
  const int64_t largest = *std::max_element(counts.begin(), counts.end()) * item;
  if (begin({.signature = signature, .in = in.data, .out = out.data, .counts = &given}, largest, in.bytes())) {
    // The own block at once: the published copy is not the caller's memory, and `in` may lie in `out`.
    copy_bytes(at(out.data, start_of(counts, rank_) * item), in.data, in.bytes());
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank_)
        copy_bytes(at(out.data, start_of(counts, peer) * item), call_of(peer).in,
                   counts[static_cast<size_t>(peer)] * item);
    return;
  }
  // Each rank writes its share of the result, whosever blocks it consists of, into every rank's output.
  const Share mine = share_of(rank_, size(), signature.count);
  const Copy copy = copy_for(size() * out.bytes());
  int64_t start = 0;
  for (int owner = 0; owner < size(); ++owner) {
    const int64_t end = start + counts[static_cast<size_t>(owner)];
    const int64_t first = std::max(start, mine.begin), last = std::min(end, mine.begin + mine.count);
    give_to_all(call_of(owner).in, start, first, last - first, in.type, copy);
    start = end;
  }
  finish();
}

void ThreadBackend::reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction) {
  const Counts given{counts, {}};
  const Signature signature{.collective = Collective::reduce_scatter,
                            .type = in.type,
                            .reduction = reduction,
                            .count = total_of(counts),
                            .counts_hash = hash_of(counts)};
  const bool small = begin({.signature = signature, .in = in.data, .counts = &given}, in.bytes(), in.bytes());
  reduce_all_into(out, inputs(start_of(counts, rank_) * size_of(in.type)), reduction);
  if (!small) finish();
}

void ThreadBackend::all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                               std::span<const int64_t> receive_counts) {
  const int64_t item = size_of(in.type);
  const Counts given{send_counts, receive_counts};
  const Signature signature{.collective = Collective::all_to_all, .type = in.type};
  begin({.signature = signature, .in = in.data, .counts = &given}, std::numeric_limits<int64_t>::max(), 0);
  const Copy copy = copy_for(size() * out.bytes());  // the others' outputs may be larger or smaller
  for (int step = 0; step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    const Call& theirs = call_of(peer);
    copy(at(out.data, start_of(receive_counts, peer) * item),
         at(theirs.in, start_of(theirs.counts->send, rank_) * item), receive_counts[static_cast<size_t>(peer)] * item);
  }
  finish();
}

}  // namespace adjoin
