#include "adjoin/comm/algorithm/gather.hpp"

#include "adjoin/comm/algorithm/block_tree.hpp"

namespace adjoin::algorithm {

Program naive_gather(int rank, int size, int root, std::span<const int64_t> counts) {
  const Blocks blocks(counts);
  const Slice own{Region::input, 0, blocks.count(rank)};
  Program program;
  if (rank == root) program.before.push_back(copy_of(own, blocks.at(Region::output, rank)));
  if (size == 1) return program;
  Step& step = program.steps.emplace_back();
  if (rank != root)
    step.transfers.push_back(send_to(root, own));
  else
    for (int peer = 0; peer < size; ++peer)
      if (peer != root) step.transfers.push_back(receive_from(peer, blocks.at(Region::output, peer)));
  return program;
}

Program tree_gather(int rank, int size, int root, std::span<const int64_t> counts) {
  const BlockTree tree(rank, size, root, counts, Region::input, Region::output);
  const int me = tree.me();
  Program program;
  program.scratch = tree.scratch();
  if (!tree.is_leaf()) program.before.push_back(copy_of(tree.own(), tree.kept()));
  for (int distance = 1; distance < size; distance *= 2) {
    Step& step = program.steps.emplace_back();
    if (me % (2 * distance) == distance) step.transfers.push_back(send_to(tree.actual(me - distance), tree.place(me)));
    if (me % (2 * distance) != 0 || me + distance >= size) continue;
    const int child = me + distance;
    step.transfers.push_back(receive_from(tree.actual(child), tree.place(child)));
    for (const auto& [home, travelling] : tree.folded(child)) step.moves.push_back(copy_of(travelling, home));
  }
  return program;
}

}  // namespace adjoin::algorithm
