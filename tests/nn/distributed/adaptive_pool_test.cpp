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

/// Sizes that divide the input's, such that do not, more outputs than inputs, and as many.
template <class Layer, class Twin, class Options, class Sizes>
void compare_adaptive(uint64_t seed, size_t dims, const Communicator& world) {
  const Grid grid(world, {{"all", world.size()}});
  Numbers draw(seed);
  const WindowCase drawn = random_window_case(draw, dims, /*half_padding=*/true);
  Sizes sizes(1);
  for (auto& size : *sizes) size = draw.from(1, dims == 3 ? 4 : 12);
  if constexpr (!std::is_same_v<Sizes, torch::ExpandingArray<1>>)
    if (draw.one_in(3)) (*sizes)[0] = std::nullopt;
  const Options options(sizes);
  const EndLayouts layouts = random_end_layouts(draw, drawn.input, world.size());
  SCOPED_TRACE(drawn.to_string() + "\n  input " + layouts.input.to_string());
  const at::Tensor x = random_tensor(drawn.input, Kind::replicated, world, draw.from(0, 1000));
  expect_same_as_twin(Layer(options, grid, layouts.output), Twin(options), draw.one_in(2) ? x : x.round(),
                      layouts.input, grid);
}

using torch::ExpandingArray, torch::ExpandingArrayWithOptionalElem;

TEST(AdaptiveMaxPool, equals_one_worker_on_random_sizes_and_layouts) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_seed(world, 40, [&](uint64_t seed) {
      compare_adaptive<AdaptiveMaxPool1d, torch::nn::AdaptiveMaxPool1d, AdaptiveMaxPool1dOptions, ExpandingArray<1>>(
          seed, 1, world);
      compare_adaptive<AdaptiveMaxPool2d, torch::nn::AdaptiveMaxPool2d, AdaptiveMaxPool2dOptions,
                       ExpandingArrayWithOptionalElem<2>>(seed, 2, world);
    });
    for_each_seed(world, 10, [&](uint64_t seed) {
      compare_adaptive<AdaptiveMaxPool3d, torch::nn::AdaptiveMaxPool3d, AdaptiveMaxPool3dOptions,
                       ExpandingArrayWithOptionalElem<3>>(seed, 3, world);
    });
  });
}

TEST(AdaptiveAvgPool, equals_one_worker_on_random_sizes_and_layouts) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_seed(world, 40, [&](uint64_t seed) {
      compare_adaptive<AdaptiveAvgPool1d, torch::nn::AdaptiveAvgPool1d, AdaptiveAvgPool1dOptions, ExpandingArray<1>>(
          seed, 1, world);
      compare_adaptive<AdaptiveAvgPool2d, torch::nn::AdaptiveAvgPool2d, AdaptiveAvgPool2dOptions,
                       ExpandingArrayWithOptionalElem<2>>(seed, 2, world);
    });
    for_each_seed(world, 10, [&](uint64_t seed) {
      compare_adaptive<AdaptiveAvgPool3d, torch::nn::AdaptiveAvgPool3d, AdaptiveAvgPool3dOptions,
                       ExpandingArrayWithOptionalElem<3>>(seed, 3, world);
    });
  });
}

TEST(AdaptivePool, refuses_a_size_of_nothing) {
  const Grid grid(Communicator(), {{"one", 1}});
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { AdaptiveMaxPool1d(AdaptiveMaxPool1dOptions(0), grid); }),
            "AdaptiveMaxPool1d: expected at least 1 output, got 0");
}

}  // namespace
}  // namespace adjoin::nn
