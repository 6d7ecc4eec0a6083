#include "adjoin/nn/distributed/pool.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/pooling.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// Runs a pooling on a random input and output layout; half of the inputs have many equal numbers.
template <class Layer, class Twin, class Options>
void compare_pool(Numbers& draw, const Options& options, const WindowCase& drawn, const Communicator& world) {
  const Grid grid(world, {{"all", world.size()}});
  const EndLayouts layouts = random_end_layouts(draw, drawn.input, world.size());
  SCOPED_TRACE(geometry_of(options).name + " " + drawn.to_string() + "\n  input " + layouts.input.to_string());
  at::Tensor x = random_tensor(drawn.input, Kind::replicated, world, draw.from(0, 1000));
  if (draw.one_in(2)) x = x.round();
  expect_same_as_twin(Layer(options, grid, layouts.output), Twin(options), x, layouts.input, grid);
}

template <size_t D, class Layer, class Twin>
void compare_max(uint64_t seed, const Communicator& world) {
  Numbers draw(seed);
  const WindowCase drawn = random_window_case(draw, D, /*half_padding=*/true);
  torch::nn::MaxPoolOptions<D> options(array<D>(drawn.kernel));
  options.stride(array<D>(drawn.stride)).padding(array<D>(drawn.padding)).dilation(array<D>(drawn.dilation));
  options.ceil_mode(draw.one_in(2));
  compare_pool<Layer, Twin>(draw, options, drawn, world);
}

template <size_t D, class Layer, class Twin>
void compare_average(uint64_t seed, const Communicator& world) {
  Numbers draw(seed);
  const WindowCase drawn = random_window_case(draw, D, /*half_padding=*/true);
  torch::nn::AvgPoolOptions<D> options(array<D>(drawn.kernel));
  options.stride(array<D>(drawn.stride)).padding(array<D>(drawn.padding)).ceil_mode(draw.one_in(2));
  options.count_include_pad(draw.one_in(2));
  if (draw.one_in(4)) options.divisor_override(draw.from(1, 5));
  compare_pool<Layer, Twin>(draw, options, drawn, world);
}

TEST(MaxPool, equals_one_worker_on_random_options_and_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) { compare_max<1, MaxPool1d, torch::nn::MaxPool1d>(seed, world); });
    for_each_seed(world, 60, [&](uint64_t seed) { compare_max<2, MaxPool2d, torch::nn::MaxPool2d>(seed, world); });
    for_each_seed(world, 30, [&](uint64_t seed) { compare_max<3, MaxPool3d, torch::nn::MaxPool3d>(seed, world); });
  });
}

TEST(AvgPool, equals_one_worker_on_random_options_and_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) { compare_average<1, AvgPool1d, torch::nn::AvgPool1d>(seed, world); });
    for_each_seed(world, 60, [&](uint64_t seed) { compare_average<2, AvgPool2d, torch::nn::AvgPool2d>(seed, world); });
    for_each_seed(world, 30, [&](uint64_t seed) { compare_average<3, AvgPool3d, torch::nn::AvgPool3d>(seed, world); });
  });
}

TEST(Pool, refuses_what_does_not_fit_on_every_worker) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    const Layout rows = balanced_over(grid.shape(), {{}, {"rows"}})({2, 4, 3});
    const DistributedTensor x = laid_out(at::ones({2, 4, 3}), rows, grid);
    const auto refusal = [&](auto layer) { return thrown_by<InvalidArgument>([&] { layer(x); }); };
    EXPECT_EQ(refusal(MaxPool2d(MaxPool2dOptions(6).padding(1), grid)),
              "MaxPool2d: window: expected a kernel that spans at most the 5 padded inputs, got one that spans 6; the "
              "input is " +
                  rows.to_string());
    EXPECT_EQ(refusal(AvgPool3d(AvgPool3dOptions(1), grid)),
              "AvgPool3d: expected [batch, channels, *space] with 3 dims of space, or the same without the batch; the "
              "input is " +
                  rows.to_string());
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { MaxPool1d(MaxPool1dOptions(3).padding(2), grid); }),
              "MaxPool1d: expected a padding of at most half of what the kernel spans, 1, got 2");
  });
}

}  // namespace
}  // namespace adjoin::nn
