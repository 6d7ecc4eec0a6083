#include "adjoin/movement/distributed_tensor.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/route.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/window_layers.hpp"
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
    EXPECT_THROW(cat(both, both, 2), InvalidArgument);
    EXPECT_THROW(cat(both, both, -3), InvalidArgument);
    EXPECT_THROW(cat(both, place(a.t(), Layout(grid.shape(), {2, 3}), grid), 1), InvalidArgument);
  });
}

TEST(DistributedTensor, put_behind_another_along_a_dim_that_is_cut_alike_stays_where_it_is) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    if (world.checked()) return;  // checks are calls too
    const auto count = std::make_shared<CallCount>();
    const Grid grid(world.observed_by(count), {{"w", world.size()}});
    const auto rows = [&](int64_t size) {
      return Layout(grid.shape(), {size, 2}, {{Split::balanced(size, world.size(), 0), {"w"}}});
    };
    const at::Tensor a = at::arange(10, at::kDouble).view({5, 2}), b = -at::arange(4, at::kDouble).view({2, 2});
    const DistributedTensor here = place(a, rows(5), grid), behind = place(b, rows(2), grid);
    const int before = count->calls;
    const DistributedTensor both = cat(here, behind, 0);
    EXPECT_EQ(count->calls, before);
    EXPECT_TRUE(both.local.equal(at::cat({here.local, behind.local}, 0)));
    EXPECT_TRUE(whole(both).equal(at::cat({a, b}, 0)));
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

template <class X>
struct Applied : torch::nn::Module {
  explicit Applied(std::function<X(const X&)> f) : forward(std::move(f)) {}
  std::function<X(const X&)> forward;
};

/// A function of a distributed tensor and the same one of a plain tensor, on random layouts: value, gradient, the gradient of a
/// gradient penalty, and what check_gradients says of them.
void expect_same_on_one_worker(Numbers& draw, const std::vector<int64_t>& shape, const Communicator& world,
                               std::function<DistributedTensor(const DistributedTensor&)> f,
                               std::function<at::Tensor(const at::Tensor&)> twin) {
  const Grid grid(world, {{"all", world.size()}});
  const Layout layout = random_end_layouts(draw, shape, world.size()).input;
  SCOPED_TRACE("input " + layout.to_string());
  const at::Tensor x = random_tensor(shape, Kind::replicated, world, draw.from(0, 1000));
  expect_same_as_twin(std::make_shared<Applied<DistributedTensor>>(std::move(f)),
                      std::make_shared<Applied<at::Tensor>>(std::move(twin)), x, layout, grid);
}

std::vector<int64_t> random_shape(Numbers& draw) {
  std::vector<int64_t> shape(static_cast<size_t>(draw.from(1, 4)));
  for (int64_t& size : shape) size = draw.from(1, 6);
  return shape;
}

at::Tensor curved(const at::Tensor& x) {
  return x.tanh();
}

TEST(DistributedTensor, is_combined_element_by_element_as_on_one_worker) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 40, [&](uint64_t seed) {
      Numbers draw(seed);
      expect_same_on_one_worker(
          draw, random_shape(draw), world,
          [](const DistributedTensor& x) {
            const DistributedTensor sums = move(x, nn::summed(x.layout));
            return sums * map(sums, curved) - (-sums + sums * 3);
          },
          [](const at::Tensor& x) { return x * x.tanh() - (-x + x * 3); });
    });
  });
}

TEST(DistributedTensor, is_summed_and_averaged_over_dims_as_on_one_worker) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) {
      Numbers draw(seed);
      const std::vector<int64_t> shape = random_shape(draw);
      const auto most = static_cast<int64_t>(shape.size());
      std::vector<int64_t> dims;
      for (int64_t dim = 0; dim < most; ++dim)
        if (draw.one_in(2)) dims.push_back(draw.one_in(2) ? dim : dim - most);
      const bool keepdim = draw.one_in(2), is_mean = draw.one_in(2);
      expect_same_on_one_worker(
          draw, shape, world,
          [=](const DistributedTensor& x) { return is_mean ? mean(x, dims, keepdim) : sum(x, dims, keepdim); },
          [=](const at::Tensor& x) { return is_mean ? x.mean(dims, keepdim) : x.sum(dims, keepdim); });
    });
  });
}

TEST(DistributedTensor, sums_whole_numbers_as_int64_and_16_bit_means_in_float32) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const Layout layout(grid.shape(), {1000}, {{Split::balanced(1000, world.size(), 0), {"w"}}});
    const DistributedTensor count = sum(place(at::ones({1000}, at::kBool), layout, grid));
    EXPECT_EQ(count.local.scalar_type(), at::kLong);
    EXPECT_EQ(count.local.item<int64_t>(), 1000);
    const DistributedTensor average = mean(place(at::full({1000}, 1000, at::kHalf), layout, grid));
    EXPECT_EQ(average.local.scalar_type(), at::kHalf);
    EXPECT_NEAR(average.local.item<double>(), 1000, 2);  // the sum, 1e6, is no float16; two roundings of 1/2
  });
}

TEST(DistributedTensor, of_no_elements_has_a_mean_with_the_derivatives_of_one_worker) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const Layout layout(grid.shape(), {0, 3}, {{Split::balanced(3, world.size(), 1), {"w"}}});
    for (const bool of_all : {true, false}) {
      const at::Tensor x = at::zeros(layout.shape_on(world.rank()), at::kDouble).requires_grad_();
      const at::Tensor y = mean({x, layout, grid}, of_all ? std::vector<int64_t>() : std::vector<int64_t>{0}).local;
      const at::Tensor gy = at::ones_like(y).requires_grad_();
      EXPECT_TRUE(y.isnan().all().item<bool>());
      const at::Tensor dx = torch::autograd::grad({y}, {x}, {gy}, {}, /*create_graph=*/true)[0];
      EXPECT_TRUE(torch::autograd::grad({dx.sum()}, {gy})[0].equal(at::zeros_like(y)));  // as LibTorch's mean has it
    }
  });
}

TEST(DistributedTensor, is_put_behind_others_on_any_layouts_as_on_one_worker) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) {
      Numbers draw(seed);
      const std::vector<int64_t> shape = random_shape(draw);
      const int64_t dim = draw.from(-1, shape.size() > 1 ? 1 : 0);
      const GridShape other = random_grid(draw.seed(), world.size());
      const Layout elsewhere = random_layout(draw.seed(), other, shape, Kind::replicated);
      const bool moves = draw.one_in(2);
      expect_same_on_one_worker(
          draw, shape, world,
          [=](const DistributedTensor& x) {
            const DistributedTensor sums = move(x, nn::summed(x.layout));
            const DistributedTensor second = map(sums, curved);
            return cat({sums, moves ? move(second, elsewhere) : second, sums * 2}, dim);
          },
          [=](const at::Tensor& x) {
            return at::cat({x, x.tanh(), x * 2}, dim);
          });
    });
  });
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
  EXPECT_THROW(ghosts * 2, InvalidArgument);
  EXPECT_THROW(sum(ghosts), InvalidArgument);
  EXPECT_THROW(cat(x, ghosts, 0), InvalidArgument);
  EXPECT_THROW(cat(std::vector<DistributedTensor>(), 0), InvalidArgument);
  EXPECT_THROW(sum(x, {1}), InvalidArgument);
  EXPECT_THROW(sum(x, {0, -1}), InvalidArgument);
  EXPECT_THROW(mean({at::ones({4}, at::kLong), whole_layout, grid}), InvalidArgument);
  const DistributedTensor summands{at::ones({4}), whole_layout.with_kind("w", Kind::partial), grid};
  EXPECT_THROW(summands * summands, InvalidArgument);
  EXPECT_THROW(map(x, [](const at::Tensor& t) { return t.sum(); }), InvalidArgument);
}

}  // namespace
}  // namespace adjoin
