#include "adjoin/parallel/gradients.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/col_row.hpp"
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
        layer(x.narrow(0, mine.begin, mine.size()), nn::StepContext()).square().sum().backward();
        sum_gradients(*layer);
        optimizer.step();
        single->zero_grad();
        single(x, nn::StepContext()).square().sum().backward();
        reference.step();
      }
      expect_same_tensors(global_tensors(*layer, false), global_tensors(*single, false), "weights");
    }
  });
}

TEST(SumGradients, sums_a_plain_modules_over_a_named_grid_and_refuses_it_without) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    torch::nn::Linear plain(2, 3);
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
