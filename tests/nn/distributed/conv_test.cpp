#include "adjoin/nn/distributed/conv.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>

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

/// Draws layouts that fit the layer, runs it on them, and compares.
template <class Layer, class Twin, class Options>
void compare_on_random_layouts(Numbers& draw, const Options& options, const WindowCase& drawn,
                               const Communicator& world) {
  const Grid grid(world, {{"all", world.size()}});
  const std::vector<int64_t> weight = geometry_of(options).weight_shape();
  const WindowLayouts layouts =
      random_window_layouts(draw, drawn.input, drawn.has_batch() ? 1 : 0, weight, world.size());
  LayerLayouts placement{.weight = layouts.weight, .tensor = at::kDouble};
  const uint64_t seed = draw.seed();
  const GridShape other = draw.one_in(2) ? layouts.weight.grid() : random_grid(draw.seed(), world.size());
  if (draw.one_in(2))
    placement.output = [=](const std::vector<int64_t>& shape) {
      return random_layout(seed, other, shape, Kind::replicated);
    };
  SCOPED_TRACE(geometry_of(options).to_string() + " groups " + std::to_string(options.groups()) + " " +
               drawn.to_string() + "\n  input " + layouts.input.to_string() + "\n  weight " +
               layouts.weight.to_string());
  const at::Tensor x = random_tensor(drawn.input, Kind::replicated, world, static_cast<int64_t>(seed % 1000));
  expect_same_as_twin(Layer(options, placement, grid), Twin(options), x, layouts.input, grid);
}

template <size_t D, class Layer, class Twin>
void compare_conv(uint64_t seed, const Communicator& world) {
  Numbers draw(seed);
  WindowCase drawn = random_window_case(draw, D, /*half_padding=*/false);
  const int64_t groups = draw.one_in(2) ? 1 : draw.from(1, drawn.channels);
  const size_t channel_dim = drawn.has_batch() ? 1 : 0;
  drawn.input[channel_dim] = groups * draw.from(1, 2);
  torch::nn::ConvOptions<D> options(drawn.input[channel_dim], groups * draw.from(1, 3), array<D>(drawn.kernel));
  options.dilation(array<D>(drawn.dilation)).groups(groups).bias(!draw.one_in(3));
  const int64_t way = draw.from(0, 5);
  if (way != 0) options.stride(array<D>(drawn.stride));
  if (way == 0)
    options.padding(torch::kSame);
  else if (way == 1)
    options.padding(torch::kValid);
  else
    options.padding(array<D>(drawn.padding));
  switch (draw.from(0, 3)) {
    case 1:
      options.padding_mode(torch::kReflect);
      break;
    case 2:
      options.padding_mode(torch::kReplicate);
      break;
    case 3:
      options.padding_mode(torch::kCircular);
      break;
    default:
      break;
  }
  // torch::nn of C++ takes the dims the wrong way round where `same` is not of zeros: there they are alike.
  if (way == 0 && !std::holds_alternative<torch::enumtype::kZeros>(options.padding_mode()))
    options.kernel_size(3).dilation(1);
  compare_on_random_layouts<Layer, Twin>(draw, options, drawn, world);
}

template <size_t D, class Layer, class Twin>
void compare_transposed(uint64_t seed, const Communicator& world) {
  Numbers draw(seed);
  WindowCase drawn = random_window_case(draw, D, /*half_padding=*/false);
  const int64_t groups = draw.one_in(2) ? 1 : draw.from(1, drawn.channels);
  const size_t channel_dim = drawn.has_batch() ? 1 : 0;
  drawn.input[channel_dim] = groups * draw.from(1, 3);
  std::vector<int64_t> output_padding;
  for (size_t d = 0; d < D; ++d) {
    output_padding.push_back(draw.from(0, std::max(drawn.stride[d], drawn.dilation[d]) - 1));
    const int64_t outputs = (drawn.input[channel_dim + 1 + d] - 1) * drawn.stride[d] + output_padding[d] + 1;
    drawn.padding[d] = std::min(drawn.padding[d], (outputs - 1) / 2);
  }
  torch::nn::ConvTransposeOptions<D> options(drawn.input[channel_dim], groups * draw.from(1, 2),
                                             array<D>(drawn.kernel));
  options.stride(array<D>(drawn.stride)).dilation(array<D>(drawn.dilation)).groups(groups).bias(!draw.one_in(3));
  options.padding(array<D>(drawn.padding)).output_padding(array<D>(output_padding));
  compare_on_random_layouts<Layer, Twin>(draw, options, drawn, world);
}

TEST(Conv, equals_one_worker_on_random_options_and_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) { compare_conv<1, Conv1d, torch::nn::Conv1d>(seed, world); });
    for_each_seed(world, 90, [&](uint64_t seed) { compare_conv<2, Conv2d, torch::nn::Conv2d>(seed, world); });
    for_each_seed(world, 40, [&](uint64_t seed) { compare_conv<3, Conv3d, torch::nn::Conv3d>(seed, world); });
  });
}

TEST(ConvTranspose, equals_one_worker_on_random_options_and_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) {
      compare_transposed<1, ConvTranspose1d, torch::nn::ConvTranspose1d>(seed, world);
    });
    for_each_seed(world, 90, [&](uint64_t seed) {
      compare_transposed<2, ConvTranspose2d, torch::nn::ConvTranspose2d>(seed, world);
    });
    for_each_seed(world, 40, [&](uint64_t seed) {
      compare_transposed<3, ConvTranspose3d, torch::nn::ConvTranspose3d>(seed, world);
    });
  });
}

TEST(Conv, refuses_what_does_not_fit_on_every_worker) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    const Layout rows = balanced_over(grid.shape(), {{}, {}, {"rows"}})({2, 4, 5, 5});
    const DistributedTensor x = laid_out(at::ones({2, 4, 5, 5}), rows, grid);
    const auto refusal = [&](const Conv2dOptions& options) {
      return thrown_by<InvalidArgument>([&] { Conv2d(options, grid)->forward(x); });
    };
    const std::string input = "; the input is " + rows.to_string();
    EXPECT_EQ(
        refusal(Conv2dOptions(4, 6, 8).padding(1)),
        "Conv2d(4, 6, kernel 8x8): window: expected a kernel that spans at most the 7 padded inputs, got one that "
        "spans 8" +
            input);
    EXPECT_EQ(refusal(Conv2dOptions(4, 6, 3).padding(5).padding_mode(torch::kReflect)),
              "Conv2d(4, 6, kernel 3x3): window: expected a reflect padding of at most 4 for 5 inputs, got 5" + input);
    EXPECT_EQ(refusal(Conv2dOptions(3, 6, 3)),
              "Conv2d(3, 6, kernel 3x3): expected [batch, 3, *space] with 2 dims of space, or the same without the "
              "batch" +
                  input);
    EXPECT_EQ(refusal(Conv2dOptions(4, 6, 3).groups(4)),
              "Conv2d(4, 6, kernel 3x3): expected channels in and out that the groups divide, got 4 and 6 in 4 groups");
    EXPECT_EQ(refusal(Conv2dOptions(4, 6, 3).stride(2).padding(torch::kSame)),
              "Conv2d(4, 6, kernel 3x3): expected a stride of 1 with padding `same`, got 2");
    const Layout kernel_cut = balanced_over(grid.shape(), {{}, {}, {"rows"}})({6, 4, 3, 3});
    if (world.size() > 1) {
      EXPECT_EQ(
          thrown_by<InvalidArgument>([&] { Conv2d(Conv2dOptions(4, 6, 3), LayerLayouts{.weight = kernel_cut}, grid); }),
          "Conv2d(4, 6, kernel 3x3): expected a weight that is cut only along its features (dims 0 and 1), got " +
              kernel_cut.to_string());
    }
    const Layout summands = Layout(grid.shape(), {6, 4, 3, 3}).with_kind("rows", Kind::partial);
    EXPECT_EQ(thrown_by<InvalidArgument>(
                  [&] { Convolution(geometry_of(Conv2dOptions(4, 6, 3)), {.weight = summands}, grid); }),
              "parameter 'weight': expected exact splits and no axis that is partial, got " + summands.to_string());
  });
}

TEST(ConvTranspose, refuses_what_does_not_fit_on_every_worker) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    const Layout rows = balanced_over(grid.shape(), {{}, {}, {"rows"}})({2, 4, 5, 5});
    const DistributedTensor x = laid_out(at::ones({2, 4, 5, 5}), rows, grid);
    const auto refusal = [&](const ConvTranspose2dOptions& options) {
      return thrown_by<InvalidArgument>([&] { ConvTranspose2d(options, grid)->forward(x); });
    };
    const std::string input = "; the input is " + rows.to_string();
    EXPECT_EQ(refusal(ConvTranspose2dOptions(4, 6, 3).stride(2).output_padding(2)),
              "ConvTranspose2d(4, 6, kernel 3x3): window: expected an output padding less than stride 2 or dilation 1, "
              "got 2" +
                  input);
    EXPECT_EQ(
        refusal(ConvTranspose2dOptions(4, 6, 3).padding(4)),
        "ConvTranspose2d(4, 6, kernel 3x3): window: expected paddings that crop fewer than the 7 outputs, got 4 + 4" +
            input);
    EXPECT_EQ(
        refusal(ConvTranspose2dOptions(3, 6, 3)),
        "ConvTranspose2d(3, 6, kernel 3x3): expected [batch, 3, *space] with 2 dims of space, or the same without "
        "the batch" +
            input);
    EXPECT_EQ(refusal(ConvTranspose2dOptions(4, 6, 3).groups(4)),
              "ConvTranspose2d(4, 6, kernel 3x3): expected channels in and out that the groups divide, got 4 and 6 in "
              "4 groups");
    EXPECT_EQ(
        refusal(ConvTranspose2dOptions(4, 6, 3).padding_mode(torch::kCircular)),
        "ConvTranspose2d(4, 6, kernel 3x3): expected the padding mode zeros, the only one of a transposed convolution");
    const Layout as_conv =
        layout_copied_on(grid.shape(), {6, 4, 3, 3});  // the dims of a convolution that is not transposed
    EXPECT_EQ(thrown_by<InvalidArgument>(
                  [&] { ConvTranspose2d(ConvTranspose2dOptions(4, 6, 3), LayerLayouts{.weight = as_conv}, grid); }),
              "ConvTranspose2d(4, 6, kernel 3x3): expected a weight of shape [4, 6, 3, 3], got " + as_conv.to_string());
    const Layout kernel_cut = balanced_over(grid.shape(), {{}, {}, {}, {"rows"}})({4, 6, 3, 3});
    if (world.size() > 1) {
      EXPECT_EQ(thrown_by<InvalidArgument>([&] {
                  ConvTranspose2d(ConvTranspose2dOptions(4, 6, 3), LayerLayouts{.weight = kernel_cut}, grid);
                }),
                "ConvTranspose2d(4, 6, kernel 3x3): expected a weight that is cut only along its features (dims 1 and "
                "0), got " +
                    kernel_cut.to_string());
    }
  });
}

}  // namespace
}  // namespace adjoin::nn
