// Weights that are updated by a rule of ours.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <vector>

#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/muon.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/weights.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/sequentials.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

torch::nn::Sequential two_layers(int64_t seed) {
  using namespace torch::nn;
  return filled(Sequential(Linear(5, 7), Tanh(), Linear(7, 3)), seed);
}

TEST(WeightsByRule, train_as_one_worker_in_each_stage) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const Rule& rule : {adamw({.epsilon = 1e-4}), sgd({.momentum = 0.9}), muon()})
      for (int zero = 0; zero <= 3; ++zero) {
        SCOPED_TRACE(rule.name + " in stage " + std::to_string(zero));
        const OptimizerOptions options{.weight_decay = 0.1, .clip = 0.05};
        torch::nn::Sequential module = two_layers(world.rank()), single = two_layers(0);
        Weights weights(*module, world, {.zero = zero});
        Optimizer optimizer(weights.trained(), rule, options),
            reference(nn::parameters_of(*single, one_worker()), rule, options);
        for (int64_t step = 0; step < 3; ++step) {
          const at::Tensor all = drawn({11, 5}, step);
          const Range rows = Split::balanced(11, world.size(), 0).ranges(world.rank())[0];
          const at::Tensor mine = all.narrow(0, rows.begin, rows.size());
          const auto loss = [](torch::nn::Sequential& net, const at::Tensor& x) {
            return net->forward(x).square().mean();
          };
          weights.backward(8 * loss(module, mine), mine.size(0));
          loss(single, all).backward();
          const Update found = weights.step(optimizer, 0.1, /*loss_scale=*/8), expected = reference.step(0.1);
          EXPECT_NEAR(found.norm, expected.norm, 1e-11);
          EXPECT_FALSE(found.skipped);
        }
        const nn::State found = nn::gather_state(weights.parameters());
        if (world.rank() != 0) continue;
        for (const auto& weight : single->named_parameters())
          EXPECT_TRUE(at::allclose(found.at(weight.key()), weight.value(), 1e-9, 1e-10)) << weight.key();
      }
  });
}

TEST(WeightsByRule, skip_a_step_whose_gradient_is_not_finite) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (int zero = 0; zero <= 3; ++zero) {
      torch::nn::Sequential module = two_layers(0);
      Weights weights(*module, world, {.zero = zero});
      Optimizer optimizer(weights.trained(), adamw());
      const double factor = world.rank() == world.size() - 1 ? std::numeric_limits<double>::infinity() : 1;
      weights.backward(factor * module->forward(drawn({2, 5}, 0)).sum(), 2);
      EXPECT_TRUE(weights.step(optimizer, 0.1).skipped);
      EXPECT_EQ(optimizer.steps_taken(), 0);
    }
  });
}

}  // namespace
}  // namespace adjoin::parallel
