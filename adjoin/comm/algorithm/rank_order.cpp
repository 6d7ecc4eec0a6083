#include "adjoin/comm/algorithm/rank_order.hpp"

#include <vector>

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

namespace {

/// Makes `call` into one of the backend's own that serves it.
Call part_of(const Call& call, Collective collective, ConstBuffer in, Buffer out, std::span<const int64_t> counts) {
  Call part = call;
  part.collective = collective;
  part.algorithm = {};
  part.in = in;
  part.out = out;
  part.counts = counts;
  return part;
}

void reduce_own_block(const Call& call, Backend& backend, std::span<const int64_t> counts, Buffer out) {
  const auto ranks = static_cast<size_t>(call.size);
  std::vector<char> arrived(ranks * static_cast<size_t>(out.bytes()));
  const Buffer blocks{arrived.data(), call.size * out.count, out.type};
  const std::vector<int64_t> received(ranks, out.count);
  Call exchanged = part_of(call, Collective::all_to_all, call.in, blocks, counts);
  exchanged.receive_counts = received;
  exchanged.root = -1;
  backend.carry_out(exchanged);
  std::vector<const void*> inputs;
  for (int rank = 0; rank < call.size; ++rank) inputs.push_back(blocks.slice(rank * out.count, 0).data);
  reduce_all_into(out, inputs, call.reduction);
}

}  // namespace

void reduce_in_rank_order(const Call& call, Backend& backend) {
  if (call.collective == Collective::reduce_scatter) return reduce_own_block(call, backend, call.counts, call.out);
  const auto counts = balanced_counts(call.in.count, call.size);
  const auto own = static_cast<size_t>(call.rank);
  std::vector<char> room;
  Buffer block{nullptr, counts[own], call.in.type};
  if (call.collective == Collective::all_reduce) {
    block = call.out.slice(starts_of(counts)[own], counts[own]);
  } else {
    room.resize(static_cast<size_t>(block.bytes()));
    block.data = room.data();
  }
  reduce_own_block(call, backend, counts, block);
  const bool is_all = call.collective == Collective::all_reduce;
  backend.carry_out(part_of(call, is_all ? Collective::all_gather : Collective::gather, block, call.out, counts));
}

}  // namespace adjoin::algorithm
