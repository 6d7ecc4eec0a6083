#include "adjoin/comm/algorithm/rank_order.hpp"

#include <vector>

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin {

using algorithm::balanced_counts;
using algorithm::starts_of;

namespace {

size_t bytes_of(int64_t count, ElementType type) {
  return static_cast<size_t>(count * size_of(type));
}

int64_t own(const Backend& group, const std::vector<int64_t>& of_ranks) {
  return of_ranks[static_cast<size_t>(group.rank())];
}

}  // namespace

void reduce_scatter_in_rank_order(Backend& group, ConstBuffer in, Buffer out, std::span<const int64_t> counts,
                                  Reduction reduction) {
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<char> arrived(ranks * bytes_of(out.count, in.type));
  const Buffer blocks{arrived.data(), group.size() * out.count, in.type};
  group.all_to_all(in, counts, blocks, std::vector<int64_t>(ranks, out.count));
  std::vector<const void*> inputs;
  for (int rank = 0; rank < group.size(); ++rank) inputs.push_back(blocks.slice(rank * out.count, 0).data);
  reduce_all_into(out, inputs, reduction);
}

void reduce_in_rank_order(Backend& group, ConstBuffer in, Buffer out, Reduction reduction, int root) {
  const auto counts = balanced_counts(in.count, group.size());
  std::vector<char> reduced(bytes_of(own(group, counts), in.type));
  const Buffer block{reduced.data(), own(group, counts), in.type};
  reduce_scatter_in_rank_order(group, in, block, counts, reduction);
  group.gather(block, out, counts, root);
}

void all_reduce_in_rank_order(Backend& group, Buffer buffer, Reduction reduction) {
  const auto counts = balanced_counts(buffer.count, group.size());
  const Buffer block = buffer.slice(own(group, starts_of(counts)), own(group, counts));
  reduce_scatter_in_rank_order(group, buffer, block, counts, reduction);
  group.all_gather(block, buffer, counts);
}

}  // namespace adjoin
