// MPI's own collectives, as Transport calls them.

#include <algorithm>
#include <array>
#include <cstring>

#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/mpi/shared.hpp"
#include "adjoin/comm/mpi/transport.hpp"

namespace adjoin::mpi {

using algorithm::starts_of;
using algorithm::total_of;

namespace {

std::vector<int> as_ints(std::span<const int64_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

bool are_equal(std::span<const int64_t> counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts[0]; });
}

/// Copies in pieces, for which the C library's memcpy does not write past the caches as it does for long ones: what was
/// sent and received is partly there, and in the caches this is up to a tenth of a large collective quicker.
void copy_cached(void* to, ConstBuffer from) {
  constexpr int64_t kPiece = 128 << 10;
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from.data);
  for (int64_t begin = 0; begin < from.bytes(); begin += kPiece)
    std::memcpy(out + begin, in + begin, static_cast<size_t>(std::min(kPiece, from.bytes() - begin)));
}

}  // namespace

bool Transport::is_countable(const Call& call) const {
  return total_of(call.counts) <= options_.largest_piece;
}

const void* Transport::own_block(ConstBuffer all, const Call& call) const {
  return all.slice(total_of(call.counts.first(static_cast<size_t>(rank_))), 0).data;
}

MPI_Op Transport::operation_of(const Call& call) const {
  return group_->shared()->operation(call.in.type, call.reduction);
}

void Transport::broadcast(const Call& call) {
  for_each_piece(call.out.count, options_.largest_piece, [&](int64_t begin, int count) {
    check_mpi(MPI_Bcast(call.out.slice(begin, count).data, count, mpi_type(call.out.type), call.root, comm_),
              "broadcast");
  });
}

void Transport::reduce(const Call& call) {
  const MPI_Op operation = operation_of(call);
  for_each_piece(call.in.count, options_.largest_piece, [&](int64_t begin, int count) {
    const void* from = call.in.slice(begin, count).data;
    void* to = rank_ == call.root ? call.out.slice(begin, count).data : nullptr;
    if (rank_ == call.root && from == to) from = MPI_IN_PLACE;
    check_mpi(MPI_Reduce(from, to, count, mpi_type(call.in.type), operation, call.root, comm_), "reduce");
  });
  if (rank_ == call.root) finish_reduction(call.out, call.reduction, size_);
}

void Transport::all_reduce(const Call& call) {
  const MPI_Op operation = operation_of(call);
  for_each_piece(call.out.count, options_.largest_piece, [&](int64_t begin, int count) {
    void* piece = call.out.slice(begin, count).data;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, piece, count, mpi_type(call.out.type), operation, comm_), "all_reduce");
  });
  finish_reduction(call.out, call.reduction, size_);
}

void Transport::gather(const Call& call) {
  const auto sizes = as_ints(call.counts), starts = as_ints(starts_of(call.counts));
  const void* from = call.in.data;
  if (rank_ == call.root && call.in.count > 0 && from == own_block(call.out, call)) from = MPI_IN_PLACE;
  const MPI_Datatype type = mpi_type(call.in.type);
  check_mpi(MPI_Gatherv(from, static_cast<int>(call.in.count), type, call.out.data, sizes.data(), starts.data(), type,
                        call.root, comm_),
            "gather");
}

void Transport::scatter(const Call& call) {
  const auto sizes = as_ints(call.counts), starts = as_ints(starts_of(call.counts));
  void* to = call.out.data;
  if (rank_ == call.root && call.out.count > 0 && to == own_block(call.in, call)) to = MPI_IN_PLACE;
  const MPI_Datatype type = mpi_type(call.out.type);
  check_mpi(MPI_Scatterv(call.in.data, sizes.data(), starts.data(), type, to, static_cast<int>(call.out.count), type,
                         call.root, comm_),
            "scatter");
}

void Transport::all_gather(const Call& call) {
  const ConstBuffer& in = call.in;
  void* own = const_cast<void*>(own_block(call.out, call));
  const auto place_own = [&] {
    if (in.data != own) copy_cached(own, in);
  };
  if (size_ == 2) {  // as OpenMPI does, but each rank may be in place or not
    const int peer = 1 - rank_;
    const Buffer theirs = call.out.slice(rank_ == 0 ? call.counts[0] : 0, call.counts[static_cast<size_t>(peer)]);
    exchange(std::array{send_of(in, peer, kCollectiveTag), receive_of(theirs, peer, kCollectiveTag)}, call);
    return place_own();
  }
  place_own();  // so that all ranks are in place, which MPI wants of all or none
  const MPI_Datatype type = mpi_type(call.out.type);
  if (are_equal(call.counts))  // MPI has quicker algorithms for those
    return check_mpi(
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, call.out.data, static_cast<int>(in.count), type, comm_),
        "all_gather");
  const auto sizes = as_ints(call.counts), starts = as_ints(starts_of(call.counts));
  check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, call.out.data, sizes.data(), starts.data(), type, comm_),
            "all_gather");
}

void Transport::reduce_scatter(const Call& call) {
  const Buffer& out = call.out;
  const auto sizes = as_ints(call.counts);
  std::vector<char> block;  // MPI wants buffers that do not overlap
  void* to = out.data;
  if (out.count > 0 && to == own_block(call.in, call)) {
    block.resize(static_cast<size_t>(out.bytes()));
    to = block.data();
  }
  const MPI_Op operation = operation_of(call);
  const MPI_Datatype type = mpi_type(out.type);
  // OpenMPI has other algorithms for equal blocks, measured to be up to four times as slow below this, and quicker above.
  constexpr int64_t kLarge = 32 << 20;
  check_mpi(call.in.bytes() >= kLarge && are_equal(call.counts)
                ? MPI_Reduce_scatter_block(call.in.data, to, sizes[0], type, operation, comm_)
                : MPI_Reduce_scatter(call.in.data, to, sizes.data(), type, operation, comm_),
            "reduce_scatter");
  if (!block.empty()) std::memcpy(out.data, block.data(), block.size());
  finish_reduction(out, call.reduction, size_);
}

/// As OpenMPI's own linear algorithm. MPI_Alltoallv counts in int, and whether that is enough no rank knows alone.
void Transport::all_to_all(const Call& call) {
  posted_.clear();
  ConstBuffer own_in;
  Buffer own_out;
  int64_t sent = 0, received = 0;
  for (int peer = 0; peer < size_; ++peer) {
    const ConstBuffer from = call.in.slice(sent, call.counts[static_cast<size_t>(peer)]);
    const Buffer to = call.out.slice(received, call.receive_counts[static_cast<size_t>(peer)]);
    sent += from.count;
    received += to.count;
    if (peer == rank_) {
      own_in = from, own_out = to;
    } else {
      posted_.push_back(send_of(from, peer, kCollectiveTag));
      posted_.push_back(receive_of(to, peer, kCollectiveTag));
    }
  }
  exchange(posted_, call);
  copy_cached(own_out.data, own_in);
}

}  // namespace adjoin::mpi
