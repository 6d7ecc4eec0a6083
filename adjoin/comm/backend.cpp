#include "adjoin/comm/backend.hpp"

#include "adjoin/comm/algorithm/all_gather.hpp"
#include "adjoin/comm/algorithm/all_reduce.hpp"
#include "adjoin/comm/algorithm/all_to_all.hpp"
#include "adjoin/comm/algorithm/barrier.hpp"
#include "adjoin/comm/algorithm/broadcast.hpp"
#include "adjoin/comm/algorithm/gather.hpp"
#include "adjoin/comm/algorithm/reduce.hpp"
#include "adjoin/comm/algorithm/reduce_scatter.hpp"
#include "adjoin/comm/algorithm/scatter.hpp"
#include "adjoin/comm/rank_order.hpp"

namespace adjoin {

using algorithm::run;

std::shared_ptr<Backend> Backend::for_thread(bool) {
  return shared_from_this();
}

void Backend::barrier() {
  run(algorithm::dissemination_barrier(rank(), size()), *this, {}, {});
}

void Backend::broadcast(Buffer buffer, int root) {
  run(algorithm::tree_broadcast(rank(), size(), root, buffer.count), *this, {}, buffer);
}

void Backend::reduce(ConstBuffer in, Buffer out, Reduction reduction, int root) {
  if (deterministic_) return reduce_in_rank_order(*this, in, out, reduction, root);
  out.type = in.type;  // where this rank is not the root nothing was given
  run(algorithm::tree_reduce(rank(), size(), root, in.count), *this, in, out, pairwise_of(reduction));
  if (rank() == root) finish_reduction(out, reduction, size());
}

void Backend::all_reduce(Buffer buffer, Reduction reduction) {
  if (deterministic_) return all_reduce_in_rank_order(*this, buffer, reduction);
  run(algorithm::ring_all_reduce(rank(), size(), buffer.count), *this, {}, buffer, pairwise_of(reduction));
  finish_reduction(buffer, reduction, size());
}

void Backend::gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  out.type = in.type;
  run(algorithm::direct_gather(rank(), size(), root, counts), *this, in, out);
}

void Backend::scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  run(algorithm::direct_scatter(rank(), size(), root, counts), *this, in, out);
}

void Backend::all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts) {
  run(algorithm::ring_all_gather(rank(), size(), counts), *this, in, out);
}

void Backend::reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction) {
  if (deterministic_) return reduce_scatter_in_rank_order(*this, in, out, counts, reduction);
  run(algorithm::ring_reduce_scatter(rank(), size(), counts), *this, in, out, pairwise_of(reduction));
  finish_reduction(out, reduction, size());
}

void Backend::all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                         std::span<const int64_t> receive_counts) {
  run(algorithm::pairwise_all_to_all(rank(), size(), send_counts, receive_counts), *this, in, out);
}

}  // namespace adjoin
