#include "adjoin/movement/mappings.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

/// Splits of a dim of size 7 that are even, uneven, empty in places, and made of ranges out of order.
std::vector<Split> splits_of_seven(int parts, int64_t dim) {
  std::vector<Split> splits{Split::balanced(7, parts, dim), Split::balanced(7, parts, dim, 3)};
  std::vector<std::vector<Range>> striped(static_cast<size_t>(parts));
  for (int64_t i = 0; i < 7; ++i) striped[static_cast<size_t>((i + 1) % parts)].push_back({i, i + 1});
  splits.push_back(Split::of_ranges(striped, 7, dim));
  return splits;
}

std::vector<int64_t> shape_with(int64_t size, int64_t dim) {
  std::vector<int64_t> shape{2, 4, 3};
  shape[static_cast<size_t>(dim)] = size;
  return shape;
}

using BlockMovement = at::Tensor (*)(const at::Tensor&, const Communicator&, const Split&, CallSite::Where);

void check_adjoints(BlockMovement operation, Kind from, Kind to) {
  for_each_world({1, 2, 3, 4}, [=](const Communicator& world) {
    for (int64_t dim = 0; dim < 3; ++dim)
      for (const Split& split : splits_of_seven(world.size(), dim)) {
        const int64_t size = from == Kind::split ? split.size(world.rank()) : 7;
        expect_adjoint([&](const at::Tensor& x) { return operation(x, world, split, CallSite::Where::current()); },
                       from, to, shape_with(size, dim), world);
      }
  });
}

TEST(GatherFrom, is_the_adjoint_of_taking_a_block) {
  check_adjoints(gather_from, Kind::split, Kind::replicated);
}
TEST(ScatterTo, is_the_adjoint_of_gathering_blocks) {
  check_adjoints(scatter_to, Kind::replicated, Kind::split);
}
TEST(AllGather, is_the_adjoint_of_reduce_scatter) {
  check_adjoints(all_gather, Kind::split, Kind::copied);
}
TEST(ReduceScatter, is_the_adjoint_of_all_gather) {
  check_adjoints(reduce_scatter, Kind::partial, Kind::split);
}

TEST(Blocks, joined_are_the_whole_that_they_were_taken_from) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const at::Tensor whole = random_tensor({2, 7, 3}, Kind::replicated, world);
    for (const Split& split : splits_of_seven(world.size(), 1)) {
      const at::Tensor block = take_block(whole, split, world.rank());
      EXPECT_TRUE(join_blocks(block, world, split).equal(whole)) << split.to_string();
      const at::Tensor sum = sum_blocks(whole, world, split);
      EXPECT_TRUE(at::allclose(sum, block * world.size(), 1e-14)) << split.to_string();
      BegunBlocks begun_sum = BegunBlocks::of_sum(whole, world, split);
      BegunBlocks begun_whole = BegunBlocks::of_join(block, world, split);
      EXPECT_TRUE(begun_whole.result().equal(whole)) << split.to_string();
      EXPECT_TRUE(begun_sum.result().equal(sum)) << split.to_string();
    }
  });
}

TEST(Blocks, refuse_a_split_that_does_not_fit) {
  for_each_world({2}, [](const Communicator& world) {
    const at::Tensor x = at::ones({7, 2});
    EXPECT_THROW(scatter_to(x, world, Split::balanced(7, world.size() + 1, 0)), InvalidArgument);
    EXPECT_THROW(scatter_to(x, world, Split::balanced(6, world.size(), 0)), InvalidArgument);
    EXPECT_THROW(scatter_to(x, world, Split::balanced(7, world.size(), 2)), InvalidArgument);
  });
}

}  // namespace
}  // namespace adjoin
