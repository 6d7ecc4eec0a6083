#include "adjoin/movement/distributed_tensor.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

TEST(DistributedTensor, placed_moved_and_made_whole_is_what_it_was) {
  for_each_world({1, 2, 4, 6}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    for (uint64_t seed = 0; seed < 60; ++seed) {
      auto [from, to] = random_layouts(seed, {.workers = world.size()});
      from = stored(from), to = stored(to);
      for (const std::string& axis : from.axes(Kind::partial)) from = from.with_kind(axis, Kind::replicated);
      for (const std::string& axis : to.axes(Kind::partial)) to = to.with_kind(axis, Kind::replicated);
      if (!from.is_exact() || !to.is_exact()) continue;
      SCOPED_TRACE(from.to_string() + " -> " + to.to_string());
      const at::Tensor x = random_tensor(from.shape(), Kind::replicated, world).requires_grad_(true);
      const DistributedTensor placed = place(x, from, grid);
      EXPECT_EQ(placed.local.sizes(), at::IntArrayRef(from.shape_on(world.rank())));
      const DistributedTensor twice = map(move(placed, to), [](const at::Tensor& t) { return t * 2; });
      const at::Tensor y = whole(twice + twice);
      EXPECT_TRUE(y.equal(4 * x));
      y.square().sum().backward();
      EXPECT_TRUE(at::allclose(x.grad(), 32 * x.detach()));
    }
  });
}

TEST(DistributedTensor, that_is_copied_counts_once_in_the_gradient_of_the_whole) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const Layout copied(grid.shape(), {3}, {}, {{"w", Kind::copied}});
    const at::Tensor x = at::ones({3}, at::kDouble).requires_grad_(true);
    whole(place(x, copied, grid)).sum().backward();
    EXPECT_TRUE(x.grad().equal(at::ones({3}, at::kDouble)));
  });
}

TEST(DistributedTensor, is_put_behind_another_along_a_whole_dim) {
  for_each_world({1, 2, 3, 5}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const auto cut = [&](int64_t columns) {
      return Layout(grid.shape(), {3, columns}, {{Split::balanced(3, world.size(), 0), {"w"}}});
    };
    const at::Tensor a = at::arange(6, at::kDouble).view({3, 2}).requires_grad_();
    const at::Tensor b = at::arange(12, at::kDouble).view({3, 4}).requires_grad_();
    const DistributedTensor both = cat(place(a, cut(2), grid), place(b, cut(4), grid), 1);
    EXPECT_EQ(both.layout, cut(6));
    const at::Tensor y = whole(both);
    EXPECT_TRUE(y.equal(at::cat({a, b}, 1)));
    y.square().sum().backward();
    EXPECT_TRUE(a.grad().equal(2 * a.detach()));
    EXPECT_TRUE(b.grad().equal(2 * b.detach()));
    if (world.size() > 1) {
      EXPECT_THROW(cat(both, both, 0), InvalidArgument);
    }
    EXPECT_THROW(cat(both, both, 2), InvalidArgument);
    EXPECT_THROW(cat(both, place(a.t(), Layout(grid.shape(), {2, 3}), grid), 1), InvalidArgument);
  });
}

TEST(DistributedTensor, carries_the_context_of_its_step_on) {
  const Grid grid(Communicator(), {{"w", 1}});
  const Layout layout(grid.shape(), {4});
  const DistributedTensor of_no_step = place(at::ones({4}), layout, grid);
  DistributedTensor x = of_no_step;
  x.step = Step{.seed = 3, .number = 5};
  const auto same = [](const at::Tensor& t) { return t; };
  for (const DistributedTensor& y : {move(x, layout), map(x, same), x + of_no_step, of_no_step + x}) {
    ASSERT_TRUE(y.step.has_value());
    EXPECT_EQ(y.step->number, 5);
  }
  EXPECT_FALSE(map(of_no_step, same).step.has_value());
}

TEST(DistributedTensor, refuses_what_does_not_agree) {
  const Grid grid(Communicator(), {{"w", 1}});
  const Layout whole_layout(grid.shape(), {4});
  const Layout holes(grid.shape(), {4}, {{Split::covering({{{0, 2}}}, 4, 0), {"w"}}});
  EXPECT_THROW(place(at::ones({4}), holes, grid), InvalidArgument);
  EXPECT_THROW(place(at::ones({5}), whole_layout, grid), InvalidArgument);
  const DistributedTensor x = place(at::ones({4}), whole_layout, grid), ghosts = move(x, holes);
  EXPECT_THROW(whole(ghosts), InvalidArgument);
  EXPECT_THROW(ghosts + ghosts, InvalidArgument);
  EXPECT_THROW(x + ghosts, InvalidArgument);
  EXPECT_THROW(map(x, [](const at::Tensor& t) { return t.sum(); }), InvalidArgument);
}

}  // namespace
}  // namespace adjoin
