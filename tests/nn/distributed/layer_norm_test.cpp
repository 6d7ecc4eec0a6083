#include "adjoin/nn/distributed/layer_norm.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/normalization.h>

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

/// torch::nn has it in Python alone.
class RMSNormTwinImpl : public torch::nn::Module {
 public:
  explicit RMSNormTwinImpl(const RMSNormOptions& o) : options_(o) {
    if (o.elementwise_affine()) weight_ = register_parameter("weight", at::ones(o.normalized_shape()));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto weight = weight_.defined() ? std::optional(weight_) : std::nullopt;
    return at::rms_norm(x, options_.normalized_shape(), weight, options_.eps());
  }

 private:
  RMSNormOptions options_;
  at::Tensor weight_;
};
TORCH_MODULE(RMSNormTwin);

template <class Layer, class Twin, class Options>
void compare_sample_norm(Numbers& draw, const Options& options, const std::vector<int64_t>& input,
                         const Communicator& world) {
  const Grid grid(world, {{"all", world.size()}});
  const EndLayouts layouts = random_end_layouts(draw, input, world.size());
  LayerLayouts placement{.output = layouts.output, .tensor = at::kDouble};
  if (draw.one_in(2))
    placement.weight = random_layout(draw.seed(), random_grid(draw.seed(), world.size()), geometry_of(options).shape,
                                     Kind::replicated);
  SCOPED_TRACE("input " + layouts.input.to_string() + "\n  weight " +
               (placement.weight ? placement.weight->to_string() : "everywhere"));
  const at::Tensor x = random_tensor(input, Kind::replicated, world, draw.from(0, 1000));
  expect_same_as_twin(Layer(options, placement, grid), Twin(options), x + 3, layouts.input, grid);
}

/// Sizes of 1 to 4 dims; those before the last `normalised` ones, which are drawn too, may be empty.
std::vector<int64_t> random_samples(Numbers& draw, int64_t& normalised) {
  const int64_t dims = draw.from(1, 4);
  normalised = draw.from(1, dims);
  std::vector<int64_t> shape;
  for (int64_t dim = 0; dim < dims; ++dim)
    shape.push_back(dim < dims - normalised && draw.one_in(8) ? 0 : draw.from(1, 6));
  return shape;
}

TEST(LayerNorm, equals_one_worker_on_random_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) {
      Numbers draw(seed);
      int64_t normalised = 0;
      const std::vector<int64_t> input = random_samples(draw, normalised);
      const LayerNormOptions options = LayerNormOptions({input.end() - normalised, input.end()})
                                           .eps(draw.one_in(2) ? 1e-5 : 0.1)
                                           .elementwise_affine(!draw.one_in(3));
      compare_sample_norm<LayerNorm, torch::nn::LayerNorm>(draw, options, input, world);
    });
  });
}

TEST(RMSNorm, equals_one_worker_on_random_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) {
      Numbers draw(seed);
      int64_t normalised = 0;
      const std::vector<int64_t> input = random_samples(draw, normalised);
      RMSNormOptions options({input.end() - normalised, input.end()});
      options.elementwise_affine(!draw.one_in(3));
      if (draw.one_in(2)) options.eps(0.1);
      compare_sample_norm<RMSNorm, RMSNormTwin>(draw, options, input, world);
    });
  });
}

TEST(GroupNorm, equals_one_worker_on_random_layouts_that_cut_through_groups) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 80, [&](uint64_t seed) {
      Numbers draw(seed);
      const int64_t groups = draw.from(1, 3);
      std::vector<int64_t> input{draw.from(1, 3), groups * draw.from(1, 4)};
      for (int64_t space = draw.from(0, 3); space > 0; --space) input.push_back(draw.from(2, 4));
      const GroupNormOptions options = GroupNormOptions(groups, input[1]).eps(0.1).affine(!draw.one_in(3));
      compare_sample_norm<GroupNorm, torch::nn::GroupNorm>(draw, options, input, world);
    });
  });
}

TEST(LayerNorm, moves_nothing_where_each_token_lies_on_one_worker) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.checked()) return;  // checks are calls too
    const auto count = std::make_shared<CallCount>();
    const Grid grid(world.observed_by(count), {{"rows", world.size()}});
    const Layout rows = balanced_over(grid.shape(), {{"rows"}})({5, 4});
    const DistributedTensor x = laid_out(at::ones({5, 4}), rows, grid);
    LayerNorm layer(LayerNormOptions({4}), grid);
    initialize(*layer, 1);
    EXPECT_EQ(layer(x).layout, rows);
    EXPECT_EQ(count->calls, 0);
    const Layout features = balanced_over(grid.shape(), {{}, {"rows"}})({5, 4});
    layer(laid_out(at::ones({5, 4}), features, grid));
    EXPECT_EQ(count->calls, 2);  // of means and of variances
  });
}

TEST(GroupNorm, moves_nothing_where_each_group_lies_on_one_worker) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.checked()) return;
    const auto count = std::make_shared<CallCount>();
    const Grid grid(world.observed_by(count), {{"c", world.size()}});
    const Layout channels(grid.shape(), {2, 12, 3}, {{Split::balanced(12, world.size(), 1, 4), {"c"}}});
    GroupNorm layer(GroupNormOptions(3, 12), grid);
    initialize(*layer, 1);
    layer(laid_out(at::ones({2, 12, 3}), channels, grid));
    EXPECT_EQ(count->calls, 0);
  });
}

TEST(SampleNorm, takes_a_bias_without_a_weight) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    const at::Tensor x = at::arange(12, at::kDouble).square().view({3, 4}), bias = at::arange(4, at::kDouble);
    SampleNorm norm(geometry_of(LayerNormOptions({4})), LayerLayouts(), grid);
    const DistributedTensor y = norm(laid_out(x, balanced_over(grid.shape(), {{"rows"}})({3, 4}), grid), {}, bias);
    expect_close(whole(y), at::layer_norm(x, {4}, {}, bias), "output");
  });
}

TEST(SampleNorm, refuses_what_does_not_fit_on_every_worker) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    const Layout rows = balanced_over(grid.shape(), {{"rows"}})({5, 4});
    const DistributedTensor x = laid_out(at::ones({5, 4}), rows, grid);
    const std::string input = "; the input is " + rows.to_string();
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { LayerNorm(LayerNormOptions({5}), grid)->forward(x); }),
              "LayerNorm: expected the last dims to be [5]" + input);
    EXPECT_EQ(thrown_by<InvalidArgument>([&] {
                RMSNorm(RMSNormOptions({2, 5, 4}), grid)->forward(x);
              }),
              "RMSNorm: expected the last dims to be [2, 5, 4]" + input);
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { GroupNorm(GroupNormOptions(2, 6), grid)->forward(x); }),
              "GroupNorm: expected [batch, 6, *space]" + input);
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { GroupNorm(GroupNormOptions(4, 6), grid); }),
              "GroupNorm: expected channels that the groups divide, got 6 in 4 groups");
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { LayerNorm(LayerNormOptions(std::vector<int64_t>{}), grid); }),
              "LayerNorm: expected a shape of sizes of at least 1, got []");
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { LayerNorm(LayerNormOptions({4}), LayerLayouts{.weight = rows}, grid); }),
              "LayerNorm: expected a layout of [4], got " + rows.to_string());
  });
}

}  // namespace
}  // namespace adjoin::nn
