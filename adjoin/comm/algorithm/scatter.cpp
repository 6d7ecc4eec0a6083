#include "adjoin/comm/algorithm/scatter.hpp"

#include <bit>

#include "adjoin/comm/algorithm/block_tree.hpp"

namespace adjoin::algorithm {

Program naive_scatter(int rank, int size, int root, std::span<const int64_t> counts) {
  const Blocks blocks(counts);
  const Slice own{Region::output, 0, blocks.count(rank)};
  Program program;
  if (rank == root) program.before.push_back(copy_of(blocks.at(Region::input, rank), own));
  if (size == 1) return program;
  Step& step = program.steps.emplace_back();
  if (rank != root)
    step.transfers.push_back(receive_from(root, own));
  else
    for (int peer = 0; peer < size; ++peer)
      if (peer != root) step.transfers.push_back(send_to(peer, blocks.at(Region::input, peer)));
  return program;
}

Program tree_scatter(int rank, int size, int root, std::span<const int64_t> counts) {
  const BlockTree tree(rank, size, root, counts, Region::output, Region::input);
  const int me = tree.me();
  Program program;
  program.scratch = tree.scratch();
  if (me == 0) program.before.push_back(copy_of(tree.kept(), tree.own()));
  for (int distance = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) / 2; distance > 0; distance /= 2) {
    Step& step = program.steps.emplace_back();
    if (me % (2 * distance) == distance) {
      step.transfers.push_back(receive_from(tree.actual(me - distance), tree.place(me)));
      if (!tree.is_leaf()) step.moves.push_back(copy_of(tree.kept(), tree.own()));
    }
    if (me % (2 * distance) != 0 || me + distance >= size) continue;
    const int child = me + distance;
    step.transfers.push_back(send_to(tree.actual(child), tree.place(child)));
    for (const auto& [home, travelling] : tree.folded(child)) program.before.push_back(copy_of(home, travelling));
  }
  return program;
}

}  // namespace adjoin::algorithm
