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

/// Of two vectors one is cut over an axis, and one whole on each of its workers.
struct CutAndWhole : nn::ShardedModule {
  explicit CutAndWhole(const Grid& grid) {
    const int parts = grid.shape().axis_size("tp");
    cut = register_piece(
        "cut", {nn::layout_cut_along(grid, "tp", {6}, Split::balanced(6, parts, 0)), grid, nn::Initial::ones()},
        at::kFloat);
    whole = register_piece("whole", {nn::layout_cut_along(grid, "tp", {3}), grid, nn::Initial::ones()}, at::kFloat);
    nn::initialize(*this, 1);
  }
  at::Tensor cut, whole;
};

TEST(Optimizer, sums_in_one_order_in_every_stage_where_vectors_are_cut_and_whole) {
  for_each_world({2, 4}, [](const Communicator& world) {
    const int dp = world.size() / 2;
    for (const int zero : {0, 1}) {
      CutAndWhole module(Grid(world, {{"dp", dp}, {"tp", 2}}));
      Optimizer optimizer(nn::parameters_of(module), sgd(), {.zero = zero});
      for (at::Tensor* weight : {&module.cut, &module.whole}) weight->mutable_grad() = at::ones_like(*weight) / dp;
      EXPECT_NEAR(optimizer.step(0.5).norm, 3, 1e-6);  // of nine ones
      for (const at::Tensor& weight : {module.cut, module.whole})
        EXPECT_TRUE(at::equal(weight, at::full_like(weight, 0.5)));
    }
  });
}

}  // namespace
}  // namespace adjoin::parallel
