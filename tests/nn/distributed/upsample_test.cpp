#include "adjoin/nn/distributed/upsample.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/upsampling.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// torch::nn warns of each factor that is no whole number.
struct Silent : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

UpsampleOptions random_options(Numbers& draw, const std::vector<int64_t>& input) {
  const size_t dims = input.size() - 2;
  UpsampleOptions options;
  const bool cubic = dims == 2 && draw.one_in(3);
  if (draw.one_in(3)) {
    options.mode(torch::kNearest);
  } else {
    if (dims == 1) options.mode(torch::kLinear);
    if (dims == 2) options.mode(torch::kBilinear);
    if (dims == 3) options.mode(torch::kTrilinear);
    if (cubic) options.mode(torch::kBicubic);
    options.align_corners(draw.one_in(2));
  }
  std::vector<int64_t> sizes;
  std::vector<double> factors;
  for (size_t d = 0; d < dims; ++d) {
    sizes.push_back(draw.from(1, dims == 3 ? 9 : 23));
    double factor = static_cast<double>(draw.from(2, 17)) / 5;
    // Where a factor gives as many outputs as inputs, or twice as many, LibTorch's gradient of the nearest is not that of
    // its own result: forward it uses the factor, backward 1 or 2.
    const auto outputs = static_cast<int64_t>(static_cast<double>(input[d + 2]) * factor);
    const bool is_nearest = std::holds_alternative<torch::enumtype::kNearest>(options.mode());
    if (is_nearest && (outputs == input[d + 2] || outputs == 2 * input[d + 2])) factor = 3;
    factors.push_back(factor);  // 1.2 of 4 inputs are 4 outputs
  }
  return draw.one_in(2) ? options.size(sizes) : options.scale_factor(factors);
}

TEST(Upsample, equals_one_worker_on_random_options_and_layouts) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    Silent silent;
    const c10::WarningUtils::WarningHandlerGuard guard(&silent);
    const Grid grid(world, {{"all", world.size()}});
    for_each_seed(world, 120, [&](uint64_t seed) {
      Numbers draw(seed);
      const auto dims = static_cast<size_t>(draw.from(1, 3));
      WindowCase drawn = random_window_case(draw, dims, /*half_padding=*/true);
      if (!drawn.has_batch()) drawn.input.insert(drawn.input.begin(), 1);
      const UpsampleOptions options = random_options(draw, drawn.input);
      const EndLayouts layouts = random_end_layouts(draw, drawn.input, world.size());
      SCOPED_TRACE(drawn.to_string() + " mode " + std::to_string(options.mode().index()) + "\n  input " +
                   layouts.input.to_string());
      const at::Tensor x = random_tensor(drawn.input, Kind::replicated, world, draw.from(0, 1000));
      expect_same_as_twin(Upsample(options, grid, layouts.output), torch::nn::Upsample(options), x, layouts.input,
                          grid);
    });
  });
}

TEST(Upsample, takes_the_nearest_input_as_libtorch_counts_it) {
  for_each_world({3}, [](const Communicator& world) {
    const Grid grid(world, {{"x", world.size()}});
    for (const int64_t inputs : {27, 94})
      for (int64_t outputs = 1; outputs < 200; outputs += 11) {
        const at::Tensor x = at::arange(inputs, at::kDouble).view({1, 1, inputs});
        const auto options = UpsampleOptions().size(std::vector<int64_t>{outputs});
        const Layout layout = balanced_over(grid.shape(), {{}, {}, {"x"}})({1, 1, inputs});
        EXPECT_TRUE(whole(Upsample(options, grid)->forward(laid_out(x, layout, grid)))
                        .equal(torch::nn::Upsample(options)->forward(x)));
      }
  });
}

TEST(Upsample, leaves_out_the_factor_of_pictures_as_libtorch_does) {
  for_each_world({2}, [](const Communicator& world) {
    const Grid grid(world, {{"x", world.size()}});
    for (const double factor : {1.2, 1.5, 2.1, 2.4}) {
      const at::Tensor x = at::arange(16, at::kDouble).view({1, 1, 4, 4});
      const auto options = UpsampleOptions().scale_factor(std::vector<double>{factor, 1.2});
      const Layout layout = balanced_over(grid.shape(), {{}, {}, {"x"}})({1, 1, 4, 4});
      EXPECT_TRUE(whole(Upsample(options, grid)->forward(laid_out(x, layout, grid)))
                      .equal(torch::nn::Upsample(options)->forward(x)))
          << factor;
    }
  });
}

TEST(Upsample, to_the_exactly_nearest_equals_interpolate) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"all", world.size()}});
    for_each_seed(world, 30, [&](uint64_t seed) {
      Numbers draw(seed);
      std::vector<int64_t> shape{2, 3};
      std::vector<double> factors;
      std::vector<int64_t> sizes;
      for (int64_t dims = draw.from(1, 3); dims > 0; --dims) {
        shape.push_back(draw.from(1, 7));
        factors.push_back(1 + static_cast<double>(draw.from(0, 15)) / 10);
        sizes.push_back(draw.from(1, 15));
      }
      InterpolateFuncOptions options;
      options.mode(torch::kNearestExact);
      draw.one_in(2) ? options.size(sizes) : options.scale_factor(factors);
      const EndLayouts layouts = random_end_layouts(draw, shape, world.size());
      const at::Tensor x = random_tensor(shape, Kind::replicated, world, draw.from(0, 1000));
      const auto twin = [&](const at::Tensor& t) { return torch::nn::functional::interpolate(t, options); };
      Upsample layer(options, grid, layouts.output);
      const DistributedTensor mine = laid_out(x, layouts.input, grid);
      EXPECT_TRUE(whole(layer(mine)).equal(twin(x))) << layouts.input.to_string();
    });
  });
}

TEST(Upsample, refuses_options_and_inputs_that_do_not_go_together) {
  const Grid grid(Communicator(), {{"one", 1}});
  const auto refusal = [&](const UpsampleOptions& options) {
    return thrown_by<InvalidArgument>([&] { Upsample(options, grid); });
  };
  EXPECT_EQ(refusal(UpsampleOptions()), "Upsample: expected either a size or a scale factor, got neither of them");
  EXPECT_EQ(refusal(UpsampleOptions().size(std::vector<int64_t>{3}).align_corners(true)),
            "Upsample: expected no align_corners with nearest");
  Upsample flat(UpsampleOptions().size(std::vector<int64_t>{3}).mode(torch::kBilinear), grid);
  const Layout layout = balanced_over(grid.shape(), {})({1, 1, 4, 4});
  EXPECT_EQ(
      thrown_by<InvalidArgument>([&] {
        flat(laid_out(at::ones({1, 1, 4, 4}), layout, grid));
      }),
      "Upsample: expected [batch, channels, *space] with 2 dims of space and as many sizes or factors, got 4 dims and "
      "1 sizes; the input is " +
          layout.to_string());
}

}  // namespace
}  // namespace adjoin::nn
