// What users do with a module whose weights are in Weights, besides training it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/weights.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/sequentials.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;
using torch::nn::Sequential;

Sequential small_net(int64_t seed) {
  using torch::nn::Linear;
  return filled(Sequential(Linear(5, 7), Linear(7, 2)), seed);
}

TEST(WeightsInUse, see_what_was_written_to_shards) {
  for_each_world({1, 2}, [](const Communicator& world) {
    Sequential module = small_net(1), other = small_net(2);
    Weights weights(*module, world, {.zero = 3});
    const at::Tensor x = drawn({4, 5}, 3);
    const at::NoGradGuard no_gradient;
    module->forward(x);  // all is whole now
    nn::State state;
    for (const auto& item : other->named_parameters()) state[item.key()] = item.value().detach();
    nn::scatter_state(state, weights.parameters());
    EXPECT_TRUE(at::allclose(module->forward(x), other->forward(x)));
    for (const at::Tensor& part : weights.parts()) part.mul_(2);
    for (const at::Tensor& weight : other->parameters()) weight.mul_(2);
    EXPECT_TRUE(at::allclose(module->forward(x), other->forward(x)));
    weights.while_whole([&] {
      EXPECT_EQ(thrown_by<InvalidArgument>([&] { weights.any(true); }),
                "Weights::any: expected it after while_whole, got it within");
      module->parameters()[0].set_data(other->parameters()[0].data());  // whose memory the other module keeps
      module->parameters()[0].mul_(1);
    });
    EXPECT_TRUE(at::allclose(module->forward(x), other->forward(x)));
  });
}

TEST(WeightsInUse, are_those_of_complex_layers_and_of_memory_that_is_not_libtorchs) {
  for_each_world({1, 2}, [](const Communicator& world) {
    for (int zero = 0; zero <= 3; ++zero) {
      std::vector<double> memory(12, 0.5);
      torch::nn::Module module;
      const at::Tensor real = module.register_parameter("real", at::from_blob(memory.data(), {4, 3}, at::kDouble));
      const at::Tensor complex = module.register_parameter("complex", at::ones({3}, at::kComplexDouble));
      Weights weights(module, world, {.zero = zero});
      torch::optim::SGD optimizer(weights.parts(), 0.5);
      const at::Tensor y = at::view_as_real(complex * complex).sum() + real.square().sum();
      weights.backward(y, 1);
      EXPECT_NEAR(weights.step(optimizer).norm, std::sqrt(3 * 8 + 12), 1e-12);
      weights.while_whole([&] {
        EXPECT_TRUE(real.equal(at::zeros({4, 3}, at::kDouble)));
        EXPECT_TRUE(at::view_as_real(complex.detach()).equal(at::tensor({0.0, -1.0}, at::kDouble).expand({3, 2})));
      });
    }
  });
}

// A layer that comes again is asked for in a round, which changes no weight for autograd.
TEST(WeightsInUse, come_again_without_a_change) {
  for_each_world({1, 2}, [](const Communicator& world) {
    using torch::nn::Linear, torch::nn::LinearOptions;
    const auto made = [](int64_t seed) {
      std::vector<Linear> all;
      for (int i = 0; i < 3; ++i) all.emplace_back(LinearOptions(3, 3).bias(false));
      return filled(Sequential(all[0], all[1], all[2], all[0]), seed);
    };
    Sequential module = made(0), single = made(0);
    Weights weights(*module, world, {.zero = 3, .unit_bytes = 0});
    const at::Tensor x = drawn({2, 3}, 1);
    for (int step = 0; step < 2; ++step) {
      const double loss = weights.backward(mean_square(module->forward(x)), 2);
      EXPECT_NEAR(loss, mean_square(single->forward(x)).item<double>(), 1e-12);
    }
  });
}

}  // namespace
}  // namespace adjoin::parallel
