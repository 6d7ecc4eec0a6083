#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/modulelist.h>

#include <vector>

#include "adjoin/nn/linear.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

/// Matrices that travel in several messages, of which the last one has a single matrix.
struct ManyMatrices : torch::nn::Module {
  explicit ManyMatrices(const Grid& grid) {
    for (int i = 0; i < 5; ++i) layers->push_back(nn::ParallelLinear(sizes(), grid, "tp"));
    register_module("layers", layers);
    nn::initialize(*this, 1);
  }
  static nn::ParallelLinearOptions sizes() {
    return {.in_features = 200, .out_features = 300, .bias = false, .tensor = at::kDouble};
  }
  torch::nn::ModuleList layers;
};

TEST(Optimizer, updates_all_of_many_small_matrices) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (const int zero : {0, 1}) {
      ManyMatrices module(Grid(world, {{"dp", world.size()}, {"tp", 1}}));
      Optimizer optimizer(nn::parameters_of(module), sgd(), {.zero = zero});
      for (int step = 0; step < 2; ++step) {
        std::vector<at::Tensor> before;
        for (const at::Tensor& weight : module.parameters()) {
          before.push_back(weight.detach().clone());
          weight.mutable_grad() = at::ones_like(weight) / world.size();
        }
        optimizer.step(0.5);
        for (size_t i = 0; i < before.size(); ++i)
          EXPECT_TRUE(at::allclose(module.parameters()[i], before[i] - 0.5)) << "zero " << zero << ", matrix " << i;
      }
    }
  });
}

}  // namespace
}  // namespace adjoin::parallel
