#include <gmock/gmock.h>
#include <torch/nn/functional/dropout.h>

#include "adjoin/movement/recompute.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::rules_that_draw {
namespace {

using namespace adjoin::testing;
namespace F = torch::nn::functional;

/// What a module of a user may draw, from plain tensors and from x, [4, 6].
Tensors drawn(const at::Tensor& x) {
  Tensors made{at::rand({2, 3}, at::kDouble),
               at::randn({4}),
               at::randint(10, {5}, at::kLong),
               at::randint(3, 7, {5}, at::kLong),
               at::randperm(9, at::kLong),
               at::empty({7}).uniform_(-1, 1),
               at::empty({8}).bernoulli_(0.5),
               F::dropout(at::ones({20}), F::DropoutFuncOptions().p(0.5)),
               F::alpha_dropout(at::ones({20}), F::AlphaDropoutFuncOptions().p(0.5).training(true)),
               at::rand_like(x),
               at::randn_like(x),
               at::randint_like(x, 2, 9),
               at::bernoulli(x.sigmoid()),
               at::multinomial(x.exp(), 3),
               F::dropout(x, F::DropoutFuncOptions().p(0.4)),
               F::alpha_dropout(x, F::AlphaDropoutFuncOptions().p(0.4).training(true))};
  at::Tensor y = x * 1;
  y.slice(0, 1, 3).uniform_();
  made.push_back(y);
  made.push_back(at::normal(0, x.exp()));
  made.push_back(x.clone().bernoulli_(x.sigmoid()));
  return made;
}

Tensors drawn_in(const Grid& grid, const Layout& layout, int64_t step) {
  const auto home = global_grid(grid);
  home->step = Step{.seed = 3, .number = step, .training = true};
  home->drawn = 0;
  const at::Tensor plain = (at::arange(24, at::kDouble) * 0.7).sin().view({4, 6});
  const at::Tensor x = global_leaf(plain, layout, grid);
  const DrawsAlike alike(home);
  Tensors made = drawn(x);
  for (at::Tensor& one : made) one = whole(one).detach();
  return made;
}

TEST(RandomOperations, draw_the_same_in_every_layout) {
  const Grid alone(Communicator(), {{"a", 1}});
  const Tensors expected = drawn_in(alone, Layout(alone.shape(), {4, 6}), 5),
                later = drawn_in(alone, Layout(alone.shape(), {4, 6}), 6);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expected[i].sizes(), later[i].sizes());
    EXPECT_FALSE(expected[i].equal(later[i])) << "drawn again " << i;
  }
  EXPECT_NEAR(at::cat({expected[0].flatten(), expected[9].flatten()}).mean().item<double>(), 0.5, 0.25);
  EXPECT_NEAR(at::cat({expected[1].to(at::kDouble), expected[10].flatten()}).std().item<double>(), 1, 0.5);
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    for (const int64_t dim : {-1, 0, 1}) {
      const Layout layout =
          dim < 0 ? Layout(grid.shape(), {4, 6})
                  : Layout(grid.shape(), {4, 6}, {{Split::balanced(dim == 0 ? 4 : 6, world.size(), dim), {"a"}}});
      const Tensors found = drawn_in(grid, layout, 5);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_LT(largest_error(found[i], expected[i]), 1e-12) << i << " in " << layout.to_string();
    }
  });
}

TEST(RandomOperations, are_repeated_where_they_are_computed_again) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const auto home = global_grid(grid);
    const Layout cut(grid.shape(), {4, 6}, {{Split::balanced(6, world.size(), 1), {"a"}}});
    const auto noisy = [](const std::vector<at::Tensor>& x) {
      return x[0] * at::rand({6}, at::kDouble) * at::rand_like(x[0]) + at::dropout(x[0], 0.5, true);
    };
    const auto gradient = [&](bool again) {
      home->step = Step{.seed = 3, .number = 1, .training = true};
      home->drawn = 0;
      const at::Tensor x = global_leaf(at::ones({4, 6}, at::kDouble), cut, grid);
      at::Tensor y;
      {
        const DrawsAlike alike(home);
        y = again ? recomputed(noisy, {x}) : noisy({x});
      }
      y.sum().backward();
      return whole(x.grad());
    };
    EXPECT_LT(largest_error(gradient(true), gradient(false)), 1e-14);
  });
}

TEST(RandomOperations, outside_of_a_step_are_refused) {
  for_each_world({2}, [](const Communicator& world) {
    const Grid grid(world, {{"a", world.size()}});
    const auto home = global_grid(grid);
    const at::Tensor x = global_leaf(at::ones({4, 6}, at::kDouble), Layout(grid.shape(), {4, 6}), grid);
    using ::testing::HasSubstr;
    EXPECT_THAT(thrown_by<InvalidArgument>([&] { (void)at::rand_like(x); }), HasSubstr("expected a step"));
    const DrawsAlike alike(home);
    EXPECT_THAT(thrown_by<InvalidArgument>([] { (void)at::rand({2}); }), HasSubstr("aten::rand: expected a step"));
  });
}

}  // namespace
}  // namespace adjoin::rules_that_draw
