// Norms and losses of 16-bit numbers, at sizes at which sums in 16 bits are wrong, beside LibTorch's in float64.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/normalization.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/normalization.h>

#include "adjoin/nn/distributed/batch_norm.hpp"
#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/distributed/layer_norm.hpp"
#include "adjoin/nn/distributed/loss.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// The same numbers on every worker, around `mean`.
at::Tensor numbers(std::vector<int64_t> shape, double mean, double deviation, at::ScalarType type) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const at::Tensor waves = at::arange(count, at::kDouble).mul(0.7).sin() * 1.4142;
  return (waves * deviation + mean).view(shape).to(type);
}

double step_of(at::ScalarType type) {
  return type == at::kHalf ? 1.0 / 1024 : 1.0 / 128;
}

template <class Run>
void in_both_types(const Run& run) {
  for_each_world({1, 2, 3}, [&](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) run(grid, type);
  });
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, double tolerance, const char* what) {
  const double largest = std::max(1.0, expected.abs().max().item<double>());
  EXPECT_LE((found.to(at::kDouble) - expected).abs().max().item<double>(), tolerance * largest) << what;
}

/// Of a layer without second thoughts about layouts: its input is cut along `dim`.
template <class Layer, class Reference>
void expect_norm(Layer layer, const Reference& reference, const at::Tensor& input, int64_t dim, const Grid& grid,
                 const char* what) {
  initialize(*layer, 1);
  const Layout layout(grid.shape(), input.sizes().vec(),
                      {{Split::balanced(input.size(dim), grid.world().size(), dim), {"w"}}});
  const DistributedTensor y = layer->forward(place(input, layout, grid));
  EXPECT_EQ(y.local.scalar_type(), input.scalar_type());
  expect_near(whole(y).detach(), reference(input.to(at::kDouble)), 2 * step_of(input.scalar_type()), what);
}

TEST(NarrowTypes, of_norms_are_summed_in_float32) {
  in_both_types([](const Grid& grid, at::ScalarType type) {
    const at::TensorOptions wide = at::kFloat;
    expect_norm(
        BatchNorm2d(BatchNorm2dOptions(2), LayerLayouts{.tensor = wide}, grid),
        [](const at::Tensor& x) { return at::batch_norm(x, {}, {}, {}, {}, /*training=*/true, 0.1, 1e-5, false); },
        numbers({8, 2, 96, 96}, 1, 1, type), 2, grid, "BatchNorm2d of 73,728 numbers a channel");
    expect_norm(
        LayerNorm(LayerNormOptions({1024}), LayerLayouts{.tensor = wide}, grid),
        [](const at::Tensor& x) { return at::layer_norm(x, {1024}); }, numbers({6, 1024}, 0, 10, type), 1, grid,
        "LayerNorm of 1,024 features");
    expect_norm(
        GroupNorm(GroupNormOptions(2, 4), LayerLayouts{.tensor = wide}, grid),
        [](const at::Tensor& x) { return at::group_norm(x, 2); }, numbers({2, 4, 64, 64}, 3, 5, type), 2, grid,
        "GroupNorm");
    expect_norm(
        InstanceNorm2d(InstanceNorm2dOptions(2), LayerLayouts{.tensor = wide}, grid),
        [](const at::Tensor& x) { return at::instance_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false); },
        numbers({2, 2, 128, 128}, 2, 3, type), 3, grid, "InstanceNorm2d");
  });
}

TEST(NarrowTypes, of_average_pools_are_summed_in_float32) {
  in_both_types([](const Grid& grid, at::ScalarType type) {
    const at::Tensor x = numbers({1, 2, 300, 300}, 4, 1, type);
    const Layout layout(grid.shape(), x.sizes().vec(), {{Split::balanced(300, grid.world().size(), 2), {"w"}}});
    const DistributedTensor y = AvgPool2d(AvgPool2dOptions(300), grid)->forward(place(x, layout, grid));
    expect_near(whole(y), at::avg_pool2d(x.to(at::kDouble), 300), step_of(type), "AvgPool2d of 90,000 numbers");
  });
}

TEST(NarrowTypes, of_losses_are_summed_in_float32) {
  in_both_types([](const Grid& grid, at::ScalarType type) {
    const std::vector<int64_t> shape{512, 512};
    const Layout layout(grid.shape(), shape, {{Split::balanced(512, grid.world().size(), 0), {"w"}}});
    const at::Tensor x = numbers(shape, 0.4, 0.2, type).clamp(0.05, 0.95),
                     target = numbers(shape, 0.6, 0.3, type).clamp(0, 1);
    const at::Tensor x64 = x.to(at::kDouble), target64 = target.to(at::kDouble);
    const auto value = [&](auto loss) {
      return whole(loss->forward(place(x, layout, grid), place(target, layout, grid))).template item<double>();
    };
    const auto near = [&](double found, const at::Tensor& expected, const char* what) {
      EXPECT_NEAR(found / expected.item<double>(), 1, 3 * step_of(type)) << what;
    };
    near(value(MSELoss(MSELossOptions(), grid)), at::mse_loss(x64, target64), "MSELoss");
    near(value(L1Loss(L1LossOptions(), grid)), at::l1_loss(x64, target64), "L1Loss");
    near(value(SmoothL1Loss(SmoothL1LossOptions(), grid)), at::smooth_l1_loss(x64, target64), "SmoothL1Loss");
    near(value(HuberLoss(HuberLossOptions(), grid)), at::huber_loss(x64, target64), "HuberLoss");
    near(value(BCELoss(BCELossOptions(), grid)), at::binary_cross_entropy(x64, target64), "BCELoss");
    near(value(BCEWithLogitsLoss(BCEWithLogitsLossOptions(), grid)),
         at::binary_cross_entropy_with_logits(x64, target64), "BCEWithLogitsLoss");
    near(value(PoissonNLLLoss(PoissonNLLLossOptions(), grid)),
         at::poisson_nll_loss(x64, target64, true, false, 1e-8, at::Reduction::Mean), "PoissonNLLLoss");

    const at::Tensor classes = at::arange(512, at::kLong).remainder(512);
    const DistributedTensor found =
        CrossEntropyLoss(CrossEntropyLossOptions(), grid)
            ->forward(place(x * 8, layout, grid), place(classes, Layout(grid.shape(), {512}), grid));
    near(whole(found).item<double>(), at::cross_entropy_loss((x * 8).to(at::kDouble), classes), "CrossEntropyLoss");
  });
}

}  // namespace
}  // namespace adjoin::nn
