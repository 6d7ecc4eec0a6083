#include "adjoin/nn/parameter.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "adjoin/nn/attention.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

TEST(Initialize, gives_the_same_global_weights_in_every_layout) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const auto make = [](const Communicator& group) {
      ParallelSelfAttention layer(SelfAttentionOptions{.hidden = 20, .heads = 5}, group);
      initialize(*layer, 4);
      return layer;
    };
    for (const auto& [name, tensor] : global_tensors(*make(Communicator()), false))
      EXPECT_TRUE(global_tensors(*make(world), false).at(name).equal(tensor)) << name;
  });
}

TEST(Initialize, follows_seed_and_full_name) {
  const auto weight = [](uint64_t seed) {
    ColumnParallelLinear layer(ParallelLinearOptions{.in_features = 100, .out_features = 100, .deviation = 0.5},
                               Communicator());
    initialize(*layer, seed);
    return layer->named_parameters()["weight"].detach();
  };
  EXPECT_TRUE(weight(1).equal(weight(1)));
  EXPECT_FALSE(weight(1).equal(weight(2)));
  EXPECT_NEAR(weight(1).std().item<double>(), 0.5, 5 * 0.5 / std::sqrt(2 * 10000));  // five standard errors
}

TEST(Initialize, draws_16_bit_weights_as_rounded_ones) {
  const auto weight_of = [](at::ScalarType type) {
    ColumnParallelLinear layer(ParallelLinearOptions{.in_features = 3, .out_features = 4, .tensor = type},
                               Communicator());
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
  const std::vector<Parameter> found = parameters_of(both);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "a.weight");
}

TEST(ShardedModule, holds_nan_until_it_is_initialised) {
  ColumnParallelLinear layer(ParallelLinearOptions{.in_features = 2, .out_features = 2}, Communicator());
  EXPECT_TRUE(layer(at::ones({1, 2})).isnan().all().item<bool>());
}

TEST(ParametersOf, counts_a_plain_modules_parameters_as_replicated) {
  const torch::nn::Linear plain(2, 3);
  const auto parameters = parameters_of(*plain);
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].name, "weight");
  EXPECT_FALSE(parameters[0].shard.split.has_value());
  EXPECT_EQ(parameters[0].shard.shape, (std::vector<int64_t>{3, 2}));
}

}  // namespace
}  // namespace adjoin::nn
