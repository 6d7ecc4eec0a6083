#include "adjoin/parallel/gradients.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

nn::ColRow make(const Grid& grid) {
  nn::ColRow layer(
      nn::ColRowOptions{.in_features = 5, .hidden_features = 300, .out_features = 3, .tensor = at::kDouble}, grid,
      "tp");
  nn::initialize(*layer, 3);
  return layer;
}

TEST(SumGradients, lets_torchs_sgd_train_what_lies_on_any_grid) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const int tp : {1, 2}) {
      if (world.size() % tp != 0) continue;
      const Grid grid(world, {{"dp", world.size() / tp}, {"tp", tp}});
      nn::ColRow layer = make(grid), single = make(one_worker());
      const at::Tensor x = random_tensor({7, 5}, Kind::replicated, world);
      torch::optim::SGD optimizer(layer->parameters(), 0.1), reference(single->parameters(), 0.1);
      for (int step = 0; step < 3; ++step) {
        const Communicator& dp = grid.axis("dp");
        const Range mine = Split::balanced(7, dp.size(), 0).ranges(dp.rank())[0];
        layer->zero_grad();
        layer(x.narrow(0, mine.begin, mine.size()), ForwardPass()).square().sum().backward();
        sum_gradients(*layer);
        optimizer.step();
        single->zero_grad();
        single(x, ForwardPass()).square().sum().backward();
        reference.step();
      }
      expect_same_tensors(global_tensors(*layer, false), global_tensors(*single, false), "weights");
    }
  });
}

/// Two parameters on two grids of the same workers, along whose axes of one name other workers hold copies.
struct OnTwoGrids : nn::ShardedModule {
  OnTwoGrids(const Grid& a, const Grid& b) {
    first = register_piece(
        "first", {nn::layout_cut_along(a, "tp", {4}, Split::balanced(4, 2, 0)), a, nn::Initial::ones()}, at::kDouble);
    second = register_piece("second", {nn::layout_cut_along(b, "tp", {4}), b, nn::Initial::ones()}, at::kDouble);
    nn::initialize(*this, 1);
  }
  at::Tensor first, second;
};

TEST(SumGradients, tells_grids_of_the_same_workers_apart) {
  for_each_world({4}, [](const Communicator& world) {
    if (world.size() != 4) return;
    const Grid square(world, {{"dp", 2}, {"tp", 2}}), line(world, {{"dp", 4}, {"tp", 1}});
    OnTwoGrids module(square, line);
    (module.first.sum() + module.second.sum()).backward();
    sum_gradients(module);
    EXPECT_TRUE(module.first.grad().equal(at::full({2}, 2, at::kDouble)));
    EXPECT_TRUE(module.second.grad().equal(at::full({4}, 4, at::kDouble)));

    OnTwoGrids trained(square, line);
    (trained.first.sum() + trained.second.sum()).backward();
    parallel::Optimizer optimizer(nn::parameters_of(trained), parallel::adamw(), {.weight_decay = 0.01});
    EXPECT_NEAR(optimizer.step(0.1).norm, std::sqrt(4 * 2.0 * 2.0 + 4 * 4.0 * 4.0), 1e-12);
  });
}

TEST(SumGradients, takes_expanded_and_complex_gradients) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"dp", world.size()}});
    torch::nn::Linear layer(3, 2);
    broadcast_parameters(*layer, world);
    layer->weight.mutable_grad() = at::ones({1, 1}).expand({2, 3});
    layer->bias.set_data(at::zeros({2}, at::kComplexFloat));
    layer->bias.mutable_grad() = at::full({2}, c10::complex<float>(1, 2));
    sum_gradients(nn::parameters_of(*layer, grid));
    const auto ranks = static_cast<float>(world.size());
    EXPECT_TRUE(layer->weight.grad().equal(at::full({2, 3}, ranks)));
    EXPECT_TRUE(layer->bias.grad().equal(at::full({2}, c10::complex<float>(ranks, 2 * ranks))));
  });
}

TEST(SumGradients, sums_a_plain_modules_over_a_named_grid_and_refuses_it_without) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    torch::nn::Linear plain(2, 3);
    broadcast_parameters(*plain, world);
    EXPECT_NE(thrown_by<InvalidArgument>([&] { sum_gradients(*plain); }).find("'weight' has no layout"),
              std::string::npos);
    plain->weight.mutable_grad() = at::ones({3, 2});  // the bias got none, and counts as zeros
    sum_gradients(nn::parameters_of(*plain, Grid(world, {{"dp", world.size()}})));
    EXPECT_TRUE(plain->weight.grad().equal(at::full({3, 2}, world.size())));
    if (world.size() > 1) {
      EXPECT_TRUE(plain->bias.grad().equal(at::zeros({3})));
    }
  });
}

}  // namespace
}  // namespace adjoin::parallel
