// Collectives of processes with memory that their peers do not reach: what its peers read a rank shows them on a stage, by pieces.
// Only in a reduce and an all_reduce do ranks write to each other's stages.

#include <algorithm>

#include "adjoin/base/copying.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/host/host_backend.hpp"
#include "adjoin/comm/host/world.hpp"

namespace adjoin {

using algorithm::start_of;

namespace {

/// Bytes that a rank shows at once.
constexpr int64_t kPieceBytes = 256 * 1024;

}  // namespace

/// Shows a rank's elements to its peers, some of each of its blocks at once. The stage has room for two pieces: a rank fills one
/// while its peers read the other, and when they show their next pieces, they have read all before. Memory that the peers reach
/// is shown where it is. Where the world ends, a peer may read what this rank no longer keeps; its own next meeting throws then.
class HostBackend::Pieces {
 public:
  /// `counts` are those of the blocks of `in`; all ranks have equally many, and `longest` is the longest of all ranks.
  Pieces(HostBackend& backend, const Call& call, const ConstBuffer& in, std::span<const int64_t> counts,
         int64_t longest)
      : backend_(backend),
        shown_(call),
        in_(in),
        counts_(counts),
        longest_(longest),
        item_(size_of(in.type)),
        step_(std::max<int64_t>(1, kPieceBytes / item_ / static_cast<int64_t>(counts.size()))),
        is_staged_(in.bytes() > 0 && !backend.group_->world().reaches(in.data)),
        begin_(-step_) {}

  /// Shows the next piece, once all ranks are about to; false after the last, once all ranks have read it.
  bool show_next() {
    begin_ += step_;
    host::Group& group = *backend_.group_;
    if (begin_ >= longest_) {
      if (longest_ > 0) group.finish(backend_.waiter(), backend_.rank_, backend_.sequence_);
      return false;
    }
    shown_.in.data = is_staged_ ? fill_stage() : in_.data;
    backend_.sequence_ = group.publish(backend_.rank_, shown_, 0, backend_.counts_[0], is_staged_);
    std::swap(backend_.counts_[0], backend_.counts_[1]);
    group.meet_to_work(backend_.waiter(), backend_.rank_, backend_.sequence_);
    return true;
  }

  /// How many elements of the piece belong to a block of `count`.
  int64_t part_of(int64_t count) const { return std::clamp<int64_t>(count - begin_, 0, step_); }
  /// The piece's part of a rank's block, which begins at its element `start`; of the rank's own, where it is.
  const void* from(int rank, int64_t block, int64_t start) const {
    const bool is_own = rank == backend_.rank_;
    const host::PublishedCall& theirs = backend_.call_of(rank);
    const void* base = is_own ? in_.data : theirs.in;
    return static_cast<const char*>(base) + (theirs.needs_pieces && !is_own ? block * step_ : start + begin_) * item_;
  }
  /// Where the piece's part of the block at element `start` of `out` is.
  Buffer to(const Buffer& out, int64_t start, int64_t count) const {
    return {static_cast<char*>(out.data) + (start + begin_) * item_, part_of(count), out.type};
  }

 private:
  void* fill_stage() const {
    char* const piece = static_cast<char*>(backend_.stage()) + begin_ / step_ % 2 * kPieceBytes;
    int64_t start = begin_;
    for (size_t block = 0; block < counts_.size(); start += counts_[block++]) {
      const int64_t count = part_of(counts_[block]);
      if (count == 0 || (counts_.size() > 1 && static_cast<int>(block) == backend_.rank_)) continue;  // its own
      // Past the caches: to write to what a peer has just read takes up to ten times as long where it has a cache of its own.
      stream_part(piece + static_cast<int64_t>(block) * step_ * item_,
                  static_cast<const char*>(in_.data) + start * item_, count * item_);
    }
    finish_streaming();
    return piece;
  }

  HostBackend& backend_;
  Call shown_;
  const ConstBuffer in_;
  const std::span<const int64_t> counts_;
  const int64_t longest_, item_, step_;
  const bool is_staged_;
  int64_t begin_;
};

bool HostBackend::needs_pieces(const Call& call) const {
  using C = Collective;
  const host::World& world = group_->world();
  const C c = *call.collective;
  const bool is_root = call.root == rank_ || call.root < 0;
  const bool peers_read = c != C::gather && (is_root || c == C::reduce);
  const bool peers_write = is_root && c != C::scatter && c != C::reduce_scatter && c != C::all_to_all;
  const bool gives_own = peers_read && call.in.bytes() > 0 && !world.reaches(call.in.data);
  const bool gets_own = (peers_write || c == C::broadcast) && call.out.bytes() > 0 && !world.reaches(call.out.data);
  return gives_own || gets_own;
}

void* HostBackend::stage() {
  if (!stage_) stage_.emplace(group_->world().memory(), 2 * kPieceBytes);
  return stage_->at(0);
}

void HostBackend::run_in_pieces(const Call& call) {
  using C = Collective;
  switch (*call.collective) {
    case C::scatter:
    case C::all_to_all:
      return exchange_in_pieces(call);
    case C::reduce_scatter:
      return reduce_scatter_in_pieces(call);
    case C::reduce:
    case C::all_reduce:
      return reduce_in_pieces(call);
    default:
      return gather_in_pieces(call);
  }
}

/// A scatter or an all_to_all.
void HostBackend::exchange_in_pieces(const Call& call) {
  const auto ranks = static_cast<size_t>(size());
  const bool scatters = call.collective == Collective::scatter;
  const ConstBuffer none(nullptr, 0, call.in.type);
  int64_t longest = 0;
  for (int peer = 0; peer < size(); ++peer)
    longest = std::max(longest, *std::max_element(call_of(peer).counts, call_of(peer).counts + ranks));
  Pieces pieces(*this, call, scatters && rank_ != call.root ? none : call.in, call.counts, longest);
  while (pieces.show_next())
    for (int step = 0; step < size(); ++step) {
      const int peer = (rank_ + step) % size();
      if (scatters && peer != call.root) continue;
      const int64_t count = scatters ? call.out.count : call.receive_counts[static_cast<size_t>(peer)];
      const Buffer to = pieces.to(call.out, scatters ? 0 : start_of(call.receive_counts, peer), count);
      if (to.count > 0)
        copy_bytes(to.data, pieces.from(peer, rank_, start_of({call_of(peer).counts, ranks}, rank_)), to.bytes());
    }
}

void HostBackend::reduce_scatter_in_pieces(const Call& call) {
  const int64_t start = start_of(call.counts, rank_);
  const int64_t longest = *std::max_element(call.counts.begin(), call.counts.end());
  inputs_.resize(call.counts.size());
  for (Pieces pieces(*this, call, call.in, call.counts, longest); pieces.show_next();) {
    const Buffer to = pieces.to(call.out, 0, call.out.count);
    for (int peer = 0; peer < size(); ++peer) inputs_[static_cast<size_t>(peer)] = pieces.from(peer, rank_, start);
    if (to.count > 0) reduce_all_into(to, inputs_, call.reduction);
  }
}

/// A broadcast, a gather or an all_gather: each rank shows the same block to all.
void HostBackend::gather_in_pieces(const Call& call) {
  const bool broadcasts = call.collective == Collective::broadcast, is_root = rank_ == call.root;
  const bool gets = broadcasts ? !is_root : is_root || call.root < 0;
  const auto count_of = [&](int owner) {
    return broadcasts ? (owner == call.root ? call.in.count : 0) : call.counts[static_cast<size_t>(owner)];
  };
  int64_t longest = 0;
  for (int owner = 0; owner < size(); ++owner) longest = std::max(longest, count_of(owner));
  const int64_t given = count_of(rank_);
  const Copy copy = copy_for(size() * call.out.bytes());
  for (Pieces pieces(*this, call, {call.in.data, given, call.in.type}, {&given, 1}, longest); pieces.show_next();) {
    int64_t start = 0;
    for (int owner = 0; gets && owner < size(); start += count_of(owner++))
      if (const Buffer to = pieces.to(call.out, start, count_of(owner)); to.count > 0)
        copy(to.data, pieces.from(owner, 0, 0), to.bytes());
  }
}

/// A reduce or an all_reduce: each rank combines its share, which takes less time than pieces of all ranks' inputs.
void HostBackend::reduce_in_pieces(const Call& call) {
  const int64_t step = kPieceBytes / size_of(call.in.type);
  Call piece = call;
  for (int64_t begin = 0; begin < call.in.count; begin += step) {
    const int64_t count = std::min(step, call.in.count - begin);
    piece.in = call.in.slice(begin, count);
    piece.out = call.out.data ? call.out.slice(begin, count) : Buffer{nullptr, count, call.out.type};
    reduce_piece(piece);
  }
}

/// A rank copies to its stage, and back from it, all but its own share, on which it works where that is.
void HostBackend::reduce_piece(const Call& piece) {
  const host::World& world = group_->world();
  const bool stages_in = !world.reaches(piece.in.data);
  const bool stages_out = (piece.root == rank_ || piece.root < 0) && !world.reaches(piece.out.data);
  if (is_small(piece) || (!stages_in && !stages_out)) return run_in_place(piece, piece, /*needs_pieces=*/false);
  const Share mine = own_share(piece.in.count);
  const int64_t end = mine.begin + mine.count, after = piece.in.count - end;
  const Buffer staged{stage(), piece.in.count, piece.in.type};
  const auto copy_others = [&](const Buffer& to, const ConstBuffer& from) {
    copy_bytes(to.data, from.data, from.slice(0, mine.begin).bytes());
    copy_bytes(to.slice(end, after).data, from.slice(end, after).data, from.slice(end, after).bytes());
  };
  if (stages_in) copy_others(staged, piece.in);
  Call shown = piece;
  if (stages_in) shown.in.data = staged.data;
  if (stages_out) shown.out.data = staged.data;
  run_in_place(shown, piece, /*needs_pieces=*/false);
  if (stages_out) copy_others(piece.out, staged);
}

}  // namespace adjoin
