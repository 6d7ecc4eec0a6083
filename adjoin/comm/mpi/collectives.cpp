// MPI's own collectives, as Transport calls them.

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/mpi/transport.hpp"
#include "adjoin/comm/mpi/types.hpp"

namespace adjoin::mpi {

namespace {

bool are_equal(std::span<const int64_t> counts) {
  return std::ranges::all_of(counts, [&](int64_t count) { return count == counts[0]; });
}

/// Copies in pieces. For long copies the C library's memcpy writes past the caches, but part of the data sent and received is
/// in the caches, and so this makes a large collective up to a tenth faster.
void copy_cached(void* to, ConstBuffer from) {
  constexpr int64_t kPiece = 128 << 10;
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from.data);
  for (int64_t begin = 0; begin < from.bytes(); begin += kPiece)
    std::memcpy(out + begin, in + begin, static_cast<size_t>(std::min(kPiece, from.bytes() - begin)));
}

}  // namespace

/// An all_to_all goes by messages, as no rank alone knows whether MPI's counts can hold its blocks.
bool Transport::is_countable(const Call& call) const {
  return call.collective == Collective::all_to_all || algorithm::total_of(call.counts) <= options_.largest_piece;
}

void Transport::call_mpi(const Call& call) {
  if (call.collective == Collective::barrier) return check_mpi(MPI_Barrier(comm_), call.name);
  if (call.collective == Collective::all_to_all) return all_to_all(call);
  if (call.collective == Collective::all_gather && size_ == 2) return all_gather_of_two(call);
  call.counts.empty() ? call_in_pieces(call) : call_with_blocks(call);
  if (has_reduction(*call.collective) && (call.root < 0 || call.root == rank_))
    finish_reduction(call.out, call.reduction, size_);
}

void Transport::call_in_pieces(const Call& call) {
  const bool is_root = rank_ == call.root;
  const MPI_Datatype type = type_of(call.in.type);
  int64_t begin = 0;
  do {  // once even where there is nothing
    const int64_t piece = std::min(call.in.count - begin, options_.largest_piece);
    const int count = static_cast<int>(piece);
    const void* in = call.in.slice(begin, piece).data;
    void* out = is_root || call.root < 0 ? call.out.slice(begin, piece).data : nullptr;
    int code = MPI_SUCCESS;
    if (call.collective == Collective::broadcast)
      code = MPI_Bcast(const_cast<void*>(in), count, type, call.root, comm_);
    else if (call.collective == Collective::all_reduce)
      code = MPI_Allreduce(MPI_IN_PLACE, out, count, type, operation_of(call.in.type, call.reduction), comm_);
    else
      code = MPI_Reduce(is_root && in == out ? MPI_IN_PLACE : in, out, count, type,
                        operation_of(call.in.type, call.reduction), call.root, comm_);
    check_mpi(code, call.name);
    begin += piece;
  } while (begin < call.in.count);
}

void Transport::call_with_blocks(const Call& call) {
  sizes_.assign(call.counts.begin(), call.counts.end());
  starts_.resize(sizes_.size());
  std::exclusive_scan(sizes_.begin(), sizes_.end(), starts_.begin(), 0);
  const MPI_Datatype type = type_of(call.elements().type);
  const ConstBuffer in = call.in;
  const Buffer out = call.out;
  const auto rank = static_cast<size_t>(rank_);
  const auto own_block_of = [&](const auto& all) { return all.slice(starts_[rank], sizes_[rank]).data; };
  switch (*call.collective) {
    case Collective::gather: {
      const bool is_in_place = rank_ == call.root && in.count > 0 && in.data == own_block_of(out);
      return check_mpi(MPI_Gatherv(is_in_place ? MPI_IN_PLACE : in.data, sizes_[rank], type, out.data, sizes_.data(),
                                   starts_.data(), type, call.root, comm_),
                       call.name);
    }
    case Collective::scatter: {
      const bool is_in_place = rank_ == call.root && out.count > 0 && out.data == own_block_of(in);
      return check_mpi(MPI_Scatterv(in.data, sizes_.data(), starts_.data(), type, is_in_place ? MPI_IN_PLACE : out.data,
                                    sizes_[rank], type, call.root, comm_),
                       call.name);
    }
    case Collective::all_gather:  // MPI requires all ranks to be in place, or none
      if (in.data != own_block_of(out)) copy_cached(own_block_of(out), in);
      return check_mpi(are_equal(call.counts)  // MPI has faster algorithms for equal counts
                           ? MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out.data, sizes_[0], type, comm_)
                           : MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out.data, sizes_.data(), starts_.data(),
                                            type, comm_),
                       call.name);
    default:
      break;
  }
  reduce_scatter(call, out.count > 0 && out.data == own_block_of(in));
}

void Transport::reduce_scatter(const Call& call, bool is_in_place) {
  const Buffer& out = call.out;
  if (is_in_place) block_.resize(static_cast<size_t>(out.bytes()));  // MPI requires buffers that do not overlap
  void* to = is_in_place ? block_.data() : out.data;
  const MPI_Datatype type = type_of(out.type);
  // For equal blocks OpenMPI has other algorithms, measured as up to four times as slow below this size, and faster above.
  constexpr int64_t kLarge = 32 << 20;
  check_mpi(call.in.bytes() >= kLarge && are_equal(call.counts)
                ? MPI_Reduce_scatter_block(call.in.data, to, sizes_[0], type,
                                           operation_of(call.in.type, call.reduction), comm_)
                : MPI_Reduce_scatter(call.in.data, to, sizes_.data(), type, operation_of(call.in.type, call.reduction),
                                     comm_),
            call.name);
  if (is_in_place) std::memcpy(out.data, to, static_cast<size_t>(out.bytes()));
}

/// As OpenMPI does it, but each rank may be in place or not.
void Transport::all_gather_of_two(const Call& call) {
  const int64_t first = call.counts[0], second = call.counts[1];
  const Buffer lower = call.out.slice(0, first), upper = call.out.slice(first, second);
  const int peer = 1 - rank_;
  exchange(
      std::array{send_of(call.in, peer, kCollectiveTag), receive_of(rank_ == 0 ? upper : lower, peer, kCollectiveTag)},
      call);
  void* own = rank_ == 0 ? lower.data : upper.data;
  if (call.in.data != own) copy_cached(own, call.in);
}

/// Works like OpenMPI's own linear algorithm.
void Transport::all_to_all(const Call& call) {
  messages_.clear();
  ConstBuffer from = call.in.slice(0, 0), own_in;
  Buffer to = call.out.slice(0, 0), own_out;
  for (int peer = 0; peer < size_; ++peer) {
    from = from.slice(from.count, call.counts[static_cast<size_t>(peer)]);
    to = to.slice(to.count, call.receive_counts[static_cast<size_t>(peer)]);
    if (peer == rank_) {
      own_in = from, own_out = to;
    } else {
      messages_.push_back(send_of(from, peer, kCollectiveTag));
      messages_.push_back(receive_of(to, peer, kCollectiveTag));
    }
  }
  exchange(messages_, call);
  copy_cached(own_out.data, own_in);
}

}  // namespace adjoin::mpi
