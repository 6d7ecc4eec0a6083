#include "adjoin/movement/broadcast.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

at::Tensor nothing() {
  return at::empty({0}, at::kDouble);
}

TEST(Broadcast, copies_each_cells_tensor_along_the_new_axis) {
  for_each_world({4}, [](const Communicator& world) {
    if (world.size() != 4) return;
    const Grid column(world, GridShape({{"r", 2}, {"c", 1}}, {3, 1})), square(world, {{"r", 2}, {"c", 2}});
    const at::Tensor x = column.has_me()
                             ? at::full({1 + column.coordinate("r")}, 10.0 + column.coordinate("r"), at::kDouble)
                             : nothing();
    const at::Tensor y = broadcast(x, column, square);
    const int64_t row = square.coordinate("r");  // row 0 comes from rank 3, row 1 from rank 1, of another shape
    EXPECT_TRUE(y.equal(at::full({1 + row}, 10.0 + static_cast<double>(row), at::kDouble)));
  });
}

TEST(Broadcast, is_the_adjoint_of_sum_reduce_whoever_holds_the_original) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid all(world, {{"w", world.size()}});
    for (int root = 0; root < world.size(); ++root) {
      const Grid one(world, GridShape({{"w", 1}}, {root}));
      const std::vector<int64_t> shape = one.has_me() ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{0};
      expect_adjoint([&](const at::Tensor& x) { return broadcast(x, one, all); }, Kind::split, Kind::copied, shape,
                     world);
      expect_adjoint([&](const at::Tensor& x) { return sum_reduce(x, all, one); }, Kind::partial, Kind::split, {3, 2},
                     world);
    }
  });
}

TEST(SumReduce, brings_gradients_to_workers_outside_either_grid) {
  for_each_world({3}, [](const Communicator& world) {
    if (world.size() != 3) return;
    const Grid pair(world, GridShape({{"w", 2}}, {0, 1})), one(world, GridShape({{"w", 1}}, {2}));
    const at::Tensor x =
        (pair.has_me() ? at::full({2}, world.rank() + 1.0, at::kDouble) : nothing()).requires_grad_(pair.has_me());
    const at::Tensor y = sum_reduce(x, pair, one);
    ASSERT_TRUE(y.requires_grad());
    if (one.has_me()) {
      EXPECT_TRUE(y.detach().equal(at::full({2}, 3.0, at::kDouble)));
    }
    (5 * y).sum().backward();
    if (pair.has_me()) {
      EXPECT_TRUE(x.grad().equal(at::full({2}, 5.0, at::kDouble)));
    }
  });
}

TEST(Broadcast, refuses_grids_that_do_not_fit) {
  for_each_world({4}, [](const Communicator& world) {
    if (world.size() != 4) return;
    const Grid two(world, {{"w", 2}}), four(world, {{"w", 4}}), other(world, {{"v", 1}});
    EXPECT_THROW(broadcast(at::ones({1}), two, four), InvalidArgument);
    EXPECT_THROW(broadcast(at::ones({1}), other, four), InvalidArgument);
  });
}

}  // namespace
}  // namespace adjoin
