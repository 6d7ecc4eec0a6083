#include "adjoin/movement/sum_of_nodes.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

at::Tensor part_of(int64_t part, at::ScalarType type) {
  return (at::arange(37, at::kDouble) * (part + 1) * 1.7).sin().to(type);
}

at::Tensor node_of(Range node, at::ScalarType type) {
  if (node.size() == 1) return part_of(node.begin, type);
  const auto [first, second] = SumTree::halves(node);
  return node_of(first, type) + node_of(second, type);
}

TEST(SumOfNodes, has_the_bits_of_one_rank_whoever_holds_which_parts) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    std::mt19937 random(5);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
      for (int64_t parts = 1; parts <= 9; ++parts) {
        const SumTree tree{parts};
        std::vector<std::vector<Range>> held;  // some ranks hold nothing
        std::vector<int64_t> ends{0};
        for (int rank = 0; rank < world.size(); ++rank) {
          const int64_t left = parts - ends.back();
          ends.push_back(rank + 1 == world.size() ? parts : ends.back() + static_cast<int64_t>(random() % (left + 1)));
          held.push_back({{ends[static_cast<size_t>(rank)], ends.back()}});
        }
        std::vector<at::Tensor> nodes;
        for (const Range& node : tree.nodes_of(held[static_cast<size_t>(world.rank())]))
          nodes.push_back(node_of(node, type));
        const at::Tensor expected = node_of({0, parts}, type);
        const std::vector<int64_t> sizes = Split::balanced(37, world.size(), 0).sizes();
        const at::Tensor mine = reduce_scatter_nodes(nodes, tree, held, sizes, world, type);
        const Range range = balanced_range(37, world.size(), world.rank());
        EXPECT_TRUE(at::equal(mine, expected.narrow(0, range.begin, range.size()))) << parts;
        EXPECT_TRUE(at::equal(all_reduce_nodes(nodes, tree, held, world, {37}, type), expected)) << parts;
      }
  });
}

}  // namespace
}  // namespace adjoin
