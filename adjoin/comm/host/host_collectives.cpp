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

/// Where a collective is small, the inputs of the ranks that give something have travelled with their calls, and it is not
/// finished.
class HostBackend::Work {
 public:
  Work(HostBackend& host, const Call& call, bool is_small) : host_(host), call_(call), is_small_(is_small) {}

  void run() {
    using W = Work;
    static constexpr void (Work::*kWork[kCollectives])() = {nullptr,        &W::broadcast,      &W::reduce,
                                                            &W::all_reduce, &W::gather,         &W::scatter,
                                                            &W::all_gather, &W::reduce_scatter, &W::all_to_all};
    if (const auto work = kWork[static_cast<size_t>(*call_.collective)]) (this->*work)();
  }

 private:
  void broadcast() {
    const Buffer& buffer = call_.out;
    if (is_small_) {
      if (host_.rank_ != call_.root) copy_bytes(buffer.data, host_.call_of(call_.root).in, buffer.bytes());
      return;
    }
    // Each rank, including the root, writes its share into every other rank's buffer. The root's may be read-only.
    const Share mine = host_.own_share(buffer.count);
    const void* from = host_.rank_ == call_.root ? call_.in.data : host_.call_of(call_.root).in;
    give_to_all(from, 0, mine.begin, mine.count, copy_for((host_.size() - 1) * buffer.bytes()));
  }

  void reduce() {
    const ConstBuffer& in = call_.in;
    if (is_small_) {
      if (host_.rank_ == call_.root) reduce_all_into(call_.out, host_.inputs(call_, 0), call_.reduction);
      return;
    }
    const Share mine = host_.own_share(in.count);
    const int64_t offset = mine.begin * size_of(in.type);
    reduce_all_into({at(host_.output_of(call_, call_.root), offset), mine.count, in.type}, host_.inputs(call_, offset),
                    call_.reduction);
  }

  void all_reduce() {
    const Buffer& buffer = call_.out;
    if (is_small_) return reduce_all_into(buffer, host_.inputs(call_, 0), call_.reduction);
    // Each rank reduces its share and writes it into every rank's buffer.
    const Share mine = host_.own_share(buffer.count);
    const int64_t offset = mine.begin * size_of(buffer.type);
    reduce_all_into(host_.outputs(call_, offset), buffer.type, mine.count, host_.inputs(call_, offset),
                    call_.reduction);
  }

  void gather() {
    if (is_small_) {
      if (host_.rank_ == call_.root) collect();
      return;
    }
    copy_bytes(at(host_.call_of(call_.root).out, start_of(call_.counts, host_.rank_) * size_of(call_.in.type)),
               call_.in.data, call_.in.bytes());
  }

  void scatter() {
    const int64_t item = size_of(call_.out.type);
    copy_bytes(call_.out.data, at(host_.call_of(call_.root).in, start_of(call_.counts, host_.rank_) * item),
               call_.out.bytes());
  }

  void all_gather() {
    if (is_small_) return collect();
    // Each rank writes its share of the result into every rank's output, whichever ranks' blocks are in that share.
    const Share mine = host_.own_share(call_.out.count);
    const Copy copy = copy_for(host_.size() * call_.out.bytes());
    int64_t start = 0;
    for (int owner = 0; owner < host_.size(); ++owner) {
      const int64_t end = start + call_.counts[static_cast<size_t>(owner)];
      const int64_t first = std::max(start, mine.begin), last = std::min(end, mine.begin + mine.count);
      give_to_all(owner == host_.rank_ ? call_.in.data : host_.call_of(owner).in, start, first, last - first, copy);
      start = end;
    }
  }

  void reduce_scatter() {
    reduce_all_into(call_.out, host_.inputs(call_, start_of(call_.counts, host_.rank_) * size_of(call_.in.type)),
                    call_.reduction);
  }

  void all_to_all() {
    const int64_t item = size_of(call_.in.type);
    const Copy copy = copy_for(host_.size() * call_.out.bytes());  // the others' outputs may be larger or smaller
    for (int step = 0; step < host_.size(); ++step) {
      const int peer = (host_.rank_ + step) % host_.size();
      const PublishedCall& theirs = host_.call_of(peer);
      copy(at(call_.out.data, start_of(call_.receive_counts, peer) * item),
           at(theirs.in, start_of({theirs.counts, static_cast<size_t>(host_.size())}, host_.rank_) * item),
           call_.receive_counts[static_cast<size_t>(peer)] * item);
    }
  }

  /// Copies elements [first, first + count) of the outputs into every rank's output; `from` holds them from element `start` on.
  void give_to_all(const void* from, int64_t start, int64_t first, int64_t count, Copy copy) {
    const int64_t item = size_of(call_.out.type), step = kBlockBytes / item;
    for (int64_t begin = first; begin < first + count; begin += step) {
      const void* block = at(from, (begin - start) * item);
      for (int peer = 0; peer < host_.size(); ++peer)
        if (void* to = at(host_.output_of(call_, peer), begin * item); to != block)
          copy(to, block, std::min(step, first + count - begin) * item);
    }
  }

  /// Copies the blocks that travelled with the ranks' calls to their places in this rank's output.
  void collect() const {
    const int64_t item = size_of(call_.in.type);
    const auto place_of = [&](int peer) { return at(call_.out.data, start_of(call_.counts, peer) * item); };
    // The own block is copied at once: the published copy is not the caller's memory, and `in` may be inside `out`.
    copy_bytes(place_of(host_.rank_), call_.in.data, call_.in.bytes());
    for (int peer = 0; peer < host_.size(); ++peer)
      if (peer != host_.rank_)
        copy_bytes(place_of(peer), host_.call_of(peer).in, call_.counts[static_cast<size_t>(peer)] * item);
  }

  HostBackend& host_;
  const Call& call_;
  const bool is_small_;
};

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
  const bool small = is_small(call);
  const bool gives = kind_of(*call.collective).root != CollectiveKind::Root::gives || rank_ == call.root;
  sequence_ = group_->publish(rank_, shown, small && gives ? call.in.bytes() : 0, counts_[0], needs_pieces);
  std::swap(counts_[0], counts_[1]);
  small ? group_->meet(waiter(), rank_, sequence_) : group_->meet_to_work(waiter(), rank_, sequence_);
  bool in_pieces = false;
  for (int peer = 0; !small && peer < size(); ++peer) in_pieces |= call_of(peer).needs_pieces;
  if (in_pieces) return run_in_pieces(call);
  Work(*this, call, small).run();
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

}  // namespace adjoin
