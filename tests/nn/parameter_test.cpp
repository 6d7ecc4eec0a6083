#include "adjoin/nn/parameter.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/sequence/self_attention.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

TEST(Initialize, gives_the_same_global_weights_in_every_layout) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const auto make = [](const Grid& grid) {
      ParallelSelfAttention layer(SelfAttentionOptions{.hidden = 20, .heads = 5}, grid, "tp");
      initialize(*layer, 4);
      return layer;
    };
    for (const auto& [name, tensor] : global_tensors(*make(one_worker()), false))
      EXPECT_TRUE(global_tensors(*make(on_tp(world)), false).at(name).equal(tensor)) << name;
  });
}

TEST(Initialize, follows_seed_and_full_name) {
  const auto weight = [](uint64_t seed) {
    ParallelLinear layer(ParallelLinearOptions{.in_features = 100, .out_features = 100, .deviation = 0.5}, one_worker(),
                         "tp");
    initialize(*layer, seed);
    return layer->named_parameters()["weight"].detach();
  };
  EXPECT_TRUE(weight(1).equal(weight(1)));
  EXPECT_FALSE(weight(1).equal(weight(2)));
  EXPECT_NEAR(weight(1).std().item<double>(), 0.5, 5 * 0.5 / std::sqrt(2 * 10000));  // five standard errors
}

TEST(Initialize, draws_16_bit_weights_as_rounded_ones) {
  const auto weight_of = [](at::ScalarType type) {
    ParallelLinear layer(ParallelLinearOptions{.in_features = 3, .out_features = 4, .tensor = type}, one_worker(),
                         "tp");
    initialize(*layer, 5);
    return parameters_of(*layer)[0].tensor.detach().to(at::kDouble);
  };
  EXPECT_TRUE(at::allclose(weight_of(at::kBFloat16), weight_of(at::kDouble), /*rtol=*/1e-2, /*atol=*/0));
}

TEST(ParametersOf, lists_a_parameter_of_two_modules_once) {
  torch::nn::Module both;
  const at::Tensor shared = at::ones({3}).requires_grad_(true);
  both.register_module("a", std::make_shared<torch::nn::Module>())->register_parameter("weight", shared);
  both.register_module("b", std::make_shared<torch::nn::Module>())->register_parameter("weight", shared);
  const std::vector<Parameter> found = parameters_of(both, one_worker());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "a.weight");
}

TEST(ShardedModule, holds_nan_until_it_is_initialised) {
  ParallelLinear layer(ParallelLinearOptions{.in_features = 2, .out_features = 2}, one_worker(), "tp");
  EXPECT_TRUE(layer(at::ones({1, 2})).isnan().all().item<bool>());
}

/// A parameter that the last worker alone holds.
struct OnTheLast : ShardedModule {
  explicit OnTheLast(const Grid& grid) {
    const GridShape last({{"last", 1}}, {grid.world().size() - 1});
    weight = register_piece("weight", {Layout(last, {4}), grid, Initial::ones()}, at::kDouble);
  }
  at::Tensor weight;
};

TEST(ShardedModule, has_tensors_of_no_elements_outside_a_piece_s_layout) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const OnTheLast module(on_tp(world));
    initialize(module, 1);
    const bool is_last = world.rank() == world.size() - 1;
    EXPECT_TRUE(module.weight.equal(at::ones({is_last ? 4 : 0}, at::kDouble)));
    EXPECT_EQ(ranks_of_copies(parameters_of(module)[0]).size(), is_last ? 1u : 0u);
    EXPECT_EQ(copies_of(parameters_of(module)[0]).size(), 1);
    EXPECT_TRUE(global_tensors(module, false).at("weight").equal(at::ones({4}, at::kDouble)));
  });
}

TEST(ParametersOf, lays_out_a_plain_module_only_where_a_grid_is_named) {
  const torch::nn::Linear plain(2, 3);
  const Grid grid = one_worker();
  const auto parameters = parameters_of(*plain, grid);
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].name, "weight");
  EXPECT_EQ(parameters[0].layout, Layout(grid.shape(), {3, 2}, {}, {{"tp", Kind::copied}}));
  const std::string message = thrown_by<InvalidArgument>([&] { parameters_of(*plain); });
  EXPECT_NE(message.find("'weight' has no layout"), std::string::npos) << message;
}

/// A module that cuts two dims over two axes, and counts its calls.
struct TwoCuts : ShardedModule {
  explicit TwoCuts(const Grid& grid) {
    const Layout layout(grid.shape(), {5, 3, 4},
                        {{Split::balanced(5, grid.shape().axis_size("a"), 0), {"a"}},
                         {Split::of_ranges({{{2, 4}}, {{0, 2}}}, 4, 2), {"b"}}});
    weight = register_piece("weight", {layout, grid, Initial::normal(1)}, at::kDouble);
    calls = register_piece("calls", {Layout(grid.shape(), {}), grid, Initial::zeros()}, at::kLong, /*is_buffer=*/true);
  }
  at::Tensor weight, calls;
};

TEST(Initialize, draws_by_global_index_where_several_dims_are_cut) {
  for_each_world({2, 4}, [](const Communicator& world) {
    if (world.size() % 2 != 0) return;
    const Grid grid(world, {{"a", world.size() / 2}, {"b", 2}});
    TwoCuts cut(grid);
    initialize(cut, 3);
    const auto tensors = global_tensors(cut, false);
    ParallelLinear flat(
        ParallelLinearOptions{.in_features = 60, .out_features = 1, .deviation = 1.0, .tensor = at::kDouble},
        one_worker(), "tp");
    initialize(*flat, 3);  // a parameter of the same name and as many elements
    EXPECT_TRUE(tensors.at("weight").equal(flat->named_parameters()["weight"].view({5, 3, 4})));
    EXPECT_EQ(tensors.at("calls").item<int64_t>(), 0);
  });
}

}  // namespace
}  // namespace adjoin::nn
