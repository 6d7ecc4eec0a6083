#include "adjoin/nn/distributed/loss.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/loss.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// What x and its target are made of normal numbers by, so that a loss takes them.
struct Domain {
  at::Tensor (*x)(const at::Tensor&);
  at::Tensor (*target)(const at::Tensor&);
};

at::Tensor any_number(const at::Tensor& t) {
  return t.clone();
}
at::Tensor between_zero_and_one(const at::Tensor& t) {
  return t.sigmoid();
}
at::Tensor positive(const at::Tensor& t) {
  return t.exp();
}

template <class Options>
void draw_reduction(Numbers& draw, Options& options) {
  const int64_t which = draw.from(0, 3);
  if (which == 0) options.reduction(torch::kNone);
  if (which == 1) options.reduction(torch::kSum);
  if constexpr (std::is_same_v<Options, KLDivLossOptions>)
    if (which == 2) options.reduction(torch::kBatchMean);
}

/// Of the last dims of a shape, some of them 1, so that it broadcasts.
at::Tensor random_weight(Numbers& draw, const std::vector<int64_t>& shape, const Communicator& world) {
  std::vector<int64_t> sizes(shape.end() - draw.from(0, static_cast<int64_t>(shape.size())), shape.end());
  for (int64_t& size : sizes)
    if (draw.one_in(3)) size = 1;
  return random_tensor(sizes, Kind::replicated, world, draw.from(0, 1000)).exp();
}

LayoutRule random_output(Numbers& draw, int workers) {
  if (draw.one_in(3)) return {};
  if (draw.one_in(2)) return on_one_worker(static_cast<int>(draw.from(0, workers - 1)));
  const uint64_t seed = draw.seed();
  const GridShape grid = random_grid(draw.seed(), workers);
  return [=](const std::vector<int64_t>& shape) { return random_layout(seed, grid, shape, Kind::replicated); };
}

/// The value and the gradients of both ends, of a loss on random layouts of which each has its own.
template <class Loss, class Twin, class Options>
void compare_loss(Numbers& draw, Options options, const std::vector<int64_t>& shape, const Domain& domain,
                  const Communicator& world) {
  const Grid grid(world, {{"all", world.size()}});
  draw_reduction(draw, options);
  const auto drawn = [&](auto make) { return make(random_tensor(shape, Kind::replicated, world, draw.from(0, 1000))); };
  const at::Tensor x1 = drawn(domain.x).requires_grad_(true), t1 = drawn(domain.target).requires_grad_(draw.one_in(2));
  // Summands of x need not be in its domain; their sum is, to the last bit or so.
  const Layout input = random_end_layouts(draw, shape, world.size()).input;
  const Layout other = random_layout(draw.seed(), random_grid(draw.seed(), world.size()), shape, Kind::replicated);
  DistributedTensor x = laid_out(x1.detach(), input, grid), target = laid_out(t1.detach(), other, grid);
  x.local.requires_grad_(true);
  target.local.requires_grad_(t1.requires_grad());
  SCOPED_TRACE("input " + input.to_string() + "\n  target " + other.to_string());

  const DistributedTensor y = Loss(options, grid, random_output(draw, world.size()))->forward(x, target);
  const at::Tensor y1 = Twin(options)->forward(x1, t1);
  ASSERT_EQ(y.layout.shape(), y1.sizes().vec());
  expect_close(whole(y).detach(), y1.detach(), "value in " + y.layout.to_string());
  backward_from_both(y, y1);
  expect_close(whole_gradient(x), x1.grad(), "gradient of the input");
  if (t1.requires_grad()) expect_close(whole_gradient(target), t1.grad(), "gradient of the target");
}

std::vector<int64_t> random_loss_shape(Numbers& draw) {
  std::vector<int64_t> shape;
  for (int64_t dims = draw.from(1, 3); dims > 0; --dims) shape.push_back(draw.from(1, 6));
  return shape;
}

/// Runs `compare(draw, shape, world)` on random shapes.
template <class Compare>
void on_random_shapes(const Compare& compare) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for_each_seed(world, 40, [&](uint64_t seed) {
      Numbers draw(seed);
      const std::vector<int64_t> shape = random_loss_shape(draw);
      compare(draw, shape, world);
    });
  });
}

TEST(L1Loss, equals_one_worker_on_random_layouts) {
  on_random_shapes([](Numbers& draw, const auto& shape, const Communicator& world) {
    compare_loss<L1Loss, torch::nn::L1Loss>(draw, L1LossOptions(), shape, {any_number, any_number}, world);
  });
}

TEST(MSELoss, equals_one_worker_on_random_layouts) {
  on_random_shapes([](Numbers& draw, const auto& shape, const Communicator& world) {
    compare_loss<MSELoss, torch::nn::MSELoss>(draw, MSELossOptions(), shape, {any_number, any_number}, world);
  });
}

TEST(SmoothL1Loss, equals_one_worker_on_random_layouts) {
  on_random_shapes([](Numbers& draw, const auto& shape, const Communicator& world) {
    SmoothL1LossOptions options;
    if (draw.one_in(2)) options.beta(0.3);
    compare_loss<SmoothL1Loss, torch::nn::SmoothL1Loss>(draw, options, shape, {any_number, any_number}, world);
  });
}

TEST(HuberLoss, equals_one_worker_on_random_layouts) {
  on_random_shapes([](Numbers& draw, const auto& shape, const Communicator& world) {
    const HuberLossOptions options = HuberLossOptions().delta(draw.one_in(2) ? 1.0 : 0.3);
    compare_loss<HuberLoss, torch::nn::HuberLoss>(draw, options, shape, {any_number, any_number}, world);
  });
}

TEST(PoissonNLLLoss, equals_one_worker_on_random_layouts) {
  on_random_shapes([](Numbers& draw, const auto& shape, const Communicator& world) {
    PoissonNLLLossOptions options;
    options.log_input(draw.one_in(2)).eps(1e-3);
    if (draw.one_in(2)) options.full(true);
    compare_loss<PoissonNLLLoss, torch::nn::PoissonNLLLoss>(
        draw, options, shape, {options.log_input() ? any_number : positive, positive}, world);
  });
}

TEST(BCELoss, equals_one_worker_on_random_layouts) {
  on_random_shapes([](Numbers& draw, const auto& shape, const Communicator& world) {
    BCELossOptions options;
    if (draw.one_in(2)) options.weight(random_weight(draw, shape, world));
    compare_loss<BCELoss, torch::nn::BCELoss>(draw, options, shape, {between_zero_and_one, between_zero_and_one},
                                              world);
  });
}

TEST(BCEWithLogitsLoss, equals_one_worker_on_random_layouts) {
  on_random_shapes([](Numbers& draw, const auto& shape, const Communicator& world) {
    BCEWithLogitsLossOptions options;
    if (draw.one_in(2)) options.weight(random_weight(draw, shape, world));
    if (draw.one_in(2)) options.pos_weight(random_weight(draw, shape, world));
    compare_loss<BCEWithLogitsLoss, torch::nn::BCEWithLogitsLoss>(draw, options, shape,
                                                                  {any_number, between_zero_and_one}, world);
  });
}

TEST(KLDivLoss, equals_one_worker_on_random_layouts) {
  struct Silence : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  on_random_shapes([](Numbers& draw, const auto& shape, const Communicator& world) {
    Silence silence;  // the twin warns of each mean
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    const KLDivLossOptions options = KLDivLossOptions().log_target(draw.one_in(2));
    compare_loss<KLDivLoss, torch::nn::KLDivLoss>(draw, options, shape,
                                                  {any_number, options.log_target() ? any_number : positive}, world);
  });
}

TEST(MSELoss, counts_once_what_is_copied) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"all", world.size()}});
    const Layout copied(grid.shape(), {3}, {}, {{"all", Kind::copied}}), one = on_one_worker(0)({3});
    DistributedTensor x = laid_out(at::tensor({1.0, 2.0, 6.0}, at::kDouble), copied, grid);
    x.local.requires_grad_(true);
    const DistributedTensor loss = MSELoss(grid)->forward(x, laid_out(at::zeros({3}, at::kDouble), one, grid));
    EXPECT_EQ(loss.layout, Layout(grid.shape(), {}));
    EXPECT_NEAR(loss.local.item<double>(), 41.0 / 3, 1e-14);
    loss.local.backward();
    expect_close(whole_gradient(x), at::tensor({2.0 / 3, 4.0 / 3, 4.0}, at::kDouble), "gradient");
  });
}

TEST(ElementLoss, of_no_elements_has_the_second_derivatives_of_one_worker) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"all", world.size()}});
    DistributedTensor x =
        place(at::zeros({0, 3}, at::kDouble), balanced_over(grid.shape(), {{}, {"all"}})({0, 3}), grid);
    const DistributedTensor target = x;
    x.local.requires_grad_(true);
    const at::Tensor loss = MSELoss(grid)->forward(x, target).local;
    const at::Tensor of_loss = at::ones_like(loss).requires_grad_(true);
    EXPECT_TRUE(loss.isnan().item<bool>());
    const at::Tensor dx = torch::autograd::grad({loss}, {x.local}, {of_loss}, {}, /*create_graph=*/true)[0];
    EXPECT_TRUE(torch::autograd::grad({dx.sum()}, {of_loss})[0].equal(at::zeros({}, at::kDouble)));
  });
}

TEST(ElementLoss, refuses_values_that_it_is_not_defined_for) {
  const Grid grid(Communicator(), {{"one", 1}});
  const Layout layout(grid.shape(), {2});
  const DistributedTensor x = laid_out(at::full({2}, 1.5), layout, grid),
                          numbers = laid_out(at::arange(2), layout, grid);
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { BCELoss(grid)->forward(x, x); }),
            "BCELoss: rank 0: all elements of input should be between 0 and 1");
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { BCELoss(grid)->forward(x, numbers); }),
            "BCELoss, target: rank 0: expected an input of floating-point numbers, got Long; its layout is " +
                layout.to_string());
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { HuberLoss(HuberLossOptions().delta(0), grid); }),
            "HuberLoss: expected a delta above 0, got 0.000000");
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { SmoothL1Loss(SmoothL1LossOptions().beta(-1), grid); }),
            "SmoothL1Loss: expected a beta of at least 0, got -1.000000");
}

TEST(ElementLoss, refuses_what_does_not_fit_on_every_worker) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    const auto lies = balanced_over(grid.shape(), {{"rows"}});
    const Layout input = lies({5, 4}), narrow = lies({5, 1});
    const DistributedTensor x = laid_out(at::ones({5, 4}), input, grid);
    EXPECT_EQ(thrown_by<InvalidArgument>([&] {
                L1Loss(grid)->forward(x, laid_out(at::ones({5, 1}), narrow, grid));
              }),
              "L1Loss: expected a target of the input's shape, [5, 4]; the target is " + narrow.to_string());
    EXPECT_EQ(thrown_by<InvalidArgument>([&] {
                BCELoss(BCELossOptions().weight(at::ones({5, 3})), grid)->forward(x, x);
              }),
              "BCELoss: expected a weight that broadcasts to x, got one of [5, 3]; the input is " + input.to_string());
  });
}

}  // namespace
}  // namespace adjoin::nn
