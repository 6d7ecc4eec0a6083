#include "adjoin/nn/distributed/batch_norm.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>

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

/// In training twice, so that running statistics have a past, then with those alone.
template <class Layer, class Twin, class Options>
void compare_norm(uint64_t seed, size_t space, bool needs_batch, const Communicator& world) {
  const Grid grid(world, {{"all", world.size()}});
  Numbers draw(seed);
  WindowCase drawn = random_window_case(draw, space, /*half_padding=*/true);
  if (needs_batch && !drawn.has_batch()) drawn.input.insert(drawn.input.begin(), 2);
  Options options(drawn.channels);
  options.eps(0.1).momentum(0.3).affine(!draw.one_in(3)).track_running_stats(!draw.one_in(4));
  if constexpr (std::is_same_v<Options, BatchNormOptions>)
    if (draw.one_in(3)) options.momentum(std::nullopt);
  const EndLayouts layouts = random_end_layouts(draw, drawn.input, world.size());
  LayerLayouts placement{.output = layouts.output, .tensor = at::kDouble};
  if (draw.one_in(2))
    placement.weight =
        random_layout(draw.seed(), random_grid(draw.seed(), world.size()), {drawn.channels}, Kind::replicated);
  SCOPED_TRACE(drawn.to_string() + "\n  input " + layouts.input.to_string() + "\n  channels " +
               (placement.weight ? placement.weight->to_string() : "everywhere"));
  Layer layer(options, placement, grid);
  Twin twin(options);
  for (int round = 0; round < 3; ++round) {
    if (round == 2) layer->eval();
    if (round == 2) twin->eval();
    layer->zero_grad();
    twin->zero_grad();
    const at::Tensor x = random_tensor(drawn.input, Kind::replicated, world, draw.from(0, 1000));
    expect_same_as_twin(layer, twin, x + round, layouts.input, grid);
  }
}

TEST(BatchNorm, equals_one_worker_on_random_layouts) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_seed(world, 25, [&](uint64_t seed) {
      compare_norm<BatchNorm1d, torch::nn::BatchNorm1d, BatchNormOptions>(seed, 1, true, world);
      compare_norm<BatchNorm2d, torch::nn::BatchNorm2d, BatchNormOptions>(seed, 2, true, world);
      compare_norm<BatchNorm3d, torch::nn::BatchNorm3d, BatchNormOptions>(seed, 3, true, world);
    });
  });
}

TEST(InstanceNorm, equals_one_worker_on_random_layouts) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_seed(world, 25, [&](uint64_t seed) {
      compare_norm<InstanceNorm1d, torch::nn::InstanceNorm1d, InstanceNormOptions>(seed, 1, true, world);
      compare_norm<InstanceNorm2d, torch::nn::InstanceNorm2d, InstanceNormOptions>(seed, 2, true, world);
      compare_norm<InstanceNorm3d, torch::nn::InstanceNorm3d, InstanceNormOptions>(seed, 3, true, world);
    });
  });
}

TEST(BatchNorm, keeps_the_unbiased_variance_of_all_workers) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    BatchNorm1d layer(BatchNormOptions(1).momentum(1), LayerLayouts{.tensor = at::kDouble}, grid);
    initialize(*layer, 1);
    const Layout rows = balanced_over(grid.shape(), {{"rows"}})({5, 1});
    layer(laid_out(at::arange(5, at::kDouble).view({5, 1}), rows, grid));
    const auto buffers = layer->named_buffers();
    EXPECT_DOUBLE_EQ(buffers["running_mean"].item<double>(), 2);
    EXPECT_DOUBLE_EQ(buffers["running_var"].item<double>(), 2.5);  // (4 + 1 + 0 + 1 + 4) / 4
    EXPECT_EQ(buffers["num_batches_tracked"].item<int64_t>(), 1);
  });
}

TEST(BatchNorm, keeps_its_statistics_where_a_batch_is_empty) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    BatchNorm1d layer(BatchNorm1dOptions(2), LayerLayouts{.tensor = at::kDouble}, grid);
    initialize(*layer, 1);
    const Layout rows = balanced_over(grid.shape(), {{"rows"}})({0, 2});
    layer(laid_out(at::empty({0, 2}, at::kDouble), rows, grid));
    const auto buffers = layer->named_buffers();
    EXPECT_TRUE(buffers["running_mean"].equal(at::zeros({2}, at::kDouble)));
    EXPECT_TRUE(buffers["running_var"].equal(at::ones({2}, at::kDouble)));
    EXPECT_EQ(buffers["num_batches_tracked"].item<int64_t>(), 1);
  });
}

TEST(BatchNorm, refuses_one_number_a_channel_in_training) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    BatchNorm1d layer(BatchNormOptions(3), grid);
    initialize(*layer, 1);
    const Layout rows = balanced_over(grid.shape(), {{"rows"}})({1, 3});
    const DistributedTensor x = laid_out(at::ones({1, 3}), rows, grid);
    EXPECT_EQ(
        thrown_by<InvalidArgument>([&] { layer(x); }),
        "BatchNorm1d: expected more than one number in each channel in training; the input is " + rows.to_string());
    layer->eval();
    EXPECT_TRUE(at::allclose(whole(layer(x)), at::ones({1, 3}) / std::sqrt(1 + 1e-5)));
  });
}

TEST(InstanceNorm, refuses_what_does_not_fit_on_every_worker) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    const auto lies = balanced_over(grid.shape(), {{"rows"}});
    const auto refusal = [&](int64_t features, const std::vector<int64_t>& shape) {
      InstanceNorm1d layer(InstanceNormOptions(features).affine(true), grid);
      initialize(*layer, 1);
      return thrown_by<InvalidArgument>([&] { layer(laid_out(at::ones(shape), lies(shape), grid)); });
    };
    const auto input = [&](const std::vector<int64_t>& shape) { return "; the input is " + lies(shape).to_string(); };
    const std::string expected = "InstanceNorm1d: expected [batch, 3, *space] with 1 dims of space";
    EXPECT_EQ(refusal(3, {2, 4, 5}), expected + input({2, 4, 5}));
    EXPECT_EQ(refusal(3, {2, 3, 5, 5}), expected + input({2, 3, 5, 5}));
    EXPECT_EQ(refusal(3, {2, 3}), expected + input({2, 3}));  // vectors are for BatchNorm alone
    EXPECT_EQ(refusal(3, {2, 3, 1}),
              "InstanceNorm1d: expected more than one number in each channel in training" + input({2, 3, 1}));
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { InstanceNorm1d(InstanceNormOptions(0), grid); }),
              "InstanceNorm1d: expected at least 1 feature");
    const Layout channels = lies({4});
    EXPECT_EQ(thrown_by<InvalidArgument>(
                  [&] { InstanceNorm1d(InstanceNormOptions(3), LayerLayouts{.weight = channels}, grid); }),
              "InstanceNorm1d: expected a layout of [3], got " + channels.to_string());
  });
}

}  // namespace
}  // namespace adjoin::nn
