#include "adjoin/movement/one_worker.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

TEST(Gather, is_the_adjoint_of_scatter_for_every_root_and_dim) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (int root = 0; root < world.size(); ++root)
      for (int64_t dim = 0; dim < 2; ++dim) {
        const std::vector<int64_t> whole = dim == 0 ? std::vector<int64_t>{7, 3} : std::vector<int64_t>{3, 7};
        const Split split = Split::balanced(7, world.size(), dim);
        std::vector<int64_t> block = whole;
        block[static_cast<size_t>(dim)] = split.size(world.rank());
        const std::vector<int64_t> on_root = world.rank() == root ? whole : std::vector<int64_t>{0};
        expect_adjoint([&](const at::Tensor& x) { return gather(x, world, split, root); }, Kind::split, Kind::split,
                       block, world);
        expect_adjoint([&](const at::Tensor& x) { return scatter(x, whole, world, split, root); }, Kind::split,
                       Kind::split, on_root, world);
        const at::Tensor x = random_tensor(whole, Kind::replicated, world);
        const at::Tensor held = world.rank() == root ? x : at::empty({0}, at::kDouble);
        const at::Tensor mine = scatter(held, whole, world, split, root);
        EXPECT_TRUE(mine.equal(x.narrow(dim, split.offset(world.rank()), split.size(world.rank()))));
        EXPECT_TRUE(gather(mine, world, split, root).equal(held));
      }
  });
}

TEST(Scatter, gives_back_the_shape_of_any_zero_volume_tensor) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    const std::vector<int64_t> shape = world.rank() == 0 ? std::vector<int64_t>{2} : std::vector<int64_t>{0, 3};
    const at::Tensor x = at::zeros(shape, at::kDouble).requires_grad_(true);
    scatter(x, {2}, world, Split::balanced(2, world.size(), 0), 0).sum().backward();
    EXPECT_TRUE(x.grad().equal(at::ones_like(x)));
  });
}

TEST(Gather, refuses_a_split_that_gives_an_index_to_several) {
  const Split split = Split::covering({{{0, 1}}}, 1, 0), twice = Split::covering({{{0, 1}, {0, 1}}}, 1, 0);
  EXPECT_NO_THROW(gather(at::ones({1}), Communicator(), split, 0));
  EXPECT_THROW(gather(at::ones({2}), Communicator(), twice, 0), InvalidArgument);
}

TEST(Gather, of_complex_numbers_is_that_of_their_parts) {
  for_each_world({1, 3}, [](const Communicator& world) {
    const int64_t size = 2 * world.size() + 1;
    const Split split = Split::balanced(size, world.size(), 0);
    const at::Tensor real = at::arange(size, at::kDouble), whole = at::complex(real, -real);
    const at::Tensor x = world.rank() == 0 ? whole : at::empty({0}, at::kComplexDouble);
    const at::Tensor block = scatter(x, {size}, world, split, 0), back = gather(block, world, split, 0);
    EXPECT_EQ(block.sizes(), at::IntArrayRef{split.size(world.rank())});
    EXPECT_TRUE(back.equal(x));
  });
}

TEST(Gather, refuses_roots_and_splits_that_do_not_fit) {
  const Communicator world;
  EXPECT_THROW(gather(at::ones({3}), world, Split::balanced(3, 1, 0), 1), InvalidArgument);
  EXPECT_THROW(gather(at::ones({3}), world, Split::balanced(3, 2, 0), 0), InvalidArgument);
  EXPECT_THROW(gather(at::ones({3}), world, Split::balanced(3, 1, 1), 0), InvalidArgument);
  EXPECT_THROW(gather(at::ones({3}), world, Split::balanced(4, 1, 0), 0), InvalidArgument);
  EXPECT_THROW(scatter(at::ones({3}), {4}, world, Split::balanced(4, 1, 0), 0), InvalidArgument);
}

}  // namespace
}  // namespace adjoin
