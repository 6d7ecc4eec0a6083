#include "adjoin/parallel/moments.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "adjoin/nn/distributed/linear.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

nn::Linear layer_on(const Layout& weight, const Grid& grid) {
  nn::Linear layer(nn::LinearOptions(5, 7), nn::LayerLayouts{weight, {}, at::kDouble}, grid);
  nn::initialize(*layer, 3);
  return layer;
}

/// The same global gradients in every layout, of step `seed`, already summed.
void set_gradients(const torch::nn::Module& layer, int64_t seed) {
  for (const nn::Parameter& p : nn::parameters_of(layer)) {
    const at::Tensor global = random_tensor(p.layout.shape(), Kind::replicated, Communicator(), seed);
    const at::Tensor piece = place(global, stored(p.layout), Grid(p.grid)).local;
    p.tensor.mutable_grad() = piece.clone();
  }
}

template <class Optimizer, class Options>
void expect_to_go_on_elsewhere(const Options& options) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    const Grid grid(world, {{"all", world.size()}});
    for_each_seed(world, 10, [&](uint64_t seed) {
      Numbers draw(seed);
      const auto layout = [&] {
        return random_layout(draw.seed(), random_grid(draw.seed(), world.size()), {7, 5}, Kind::copied);
      };
      nn::Linear first = layer_on(layout(), grid), second = layer_on(layout(), grid);
      const auto parameters = nn::parameters_of(*first), others = nn::parameters_of(*second);
      Optimizer before(first->parameters(), options), after(second->parameters(), options);
      for (int64_t step = 0; step < 2; ++step) {
        set_gradients(*first, step);
        if (step == 0) parameters.back().tensor.mutable_grad().reset();  // so that one has taken a step less
        before.step();
      }
      nn::scatter_state(nn::gather_state(parameters), others);
      nn::scatter_state(nn::gather_state(state_of(before, parameters)), state_of(after, others));
      set_gradients(*first, 2);
      set_gradients(*second, 2);
      before.step();
      after.step();
      expect_same_tensors(global_tensors(*second, false), global_tensors(*first, false), "weights after a step");
    });
  });
}

TEST(Moments, of_adam_go_on_in_any_layout) {
  expect_to_go_on_elsewhere<torch::optim::Adam>(torch::optim::AdamOptions(0.1).amsgrad(true));
}

TEST(Moments, of_torchs_adamw_go_on_in_any_layout) {
  expect_to_go_on_elsewhere<torch::optim::AdamW>(torch::optim::AdamWOptions(0.1));
}

TEST(Moments, of_sgd_with_and_without_momentum_go_on_in_any_layout) {
  expect_to_go_on_elsewhere<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
  expect_to_go_on_elsewhere<torch::optim::SGD>(torch::optim::SGDOptions(0.1));
}

TEST(Moments, of_adagrad_go_on_in_any_layout) {
  expect_to_go_on_elsewhere<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.1).lr_decay(0.1));
}

TEST(Moments, of_rmsprop_with_and_without_momentum_go_on_in_any_layout) {
  expect_to_go_on_elsewhere<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.1).momentum(0.9).centered(true));
  expect_to_go_on_elsewhere<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.1));
}

TEST(Moments, of_an_optimizer_on_any_layouts_go_on_in_another_layout) {
  for_each_world({1, 2, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"a", world.size() == 4 ? 2 : 1}, {"b", world.size() == 4 ? 2 : world.size()}});
    const auto cut = [&](int64_t dim, const std::string& axis) {
      const std::vector<int64_t> shape{7, 5};
      const int parts = grid.shape().axis_size(axis);
      return Layout(grid.shape(), shape, {{Split::balanced(shape[static_cast<size_t>(dim)], parts, dim), {axis}}},
                    {{axis == "a" ? "b" : "a", Kind::copied}});
    };
    nn::Linear first = layer_on(cut(0, "a"), grid), second = layer_on(cut(0, "b"), grid);
    const auto gradients = [](const nn::Linear& layer, int64_t seed) {
      set_gradients(*layer, seed);  // which the optimizer sums over the copies
      for (const nn::Parameter& p : nn::parameters_of(*layer))
        p.tensor.mutable_grad() /= static_cast<double>(nn::ranks_of_copies(p).size());
    };
    Optimizer before(nn::parameters_of(*first), adamw()), after(nn::parameters_of(*second), adamw());
    gradients(first, 0);
    before.step(0.1);
    nn::scatter_state(nn::gather_state(nn::parameters_of(*first)), nn::parameters_of(*second));
    const nn::State moments = nn::gather_state(before.state());
    if (world.rank() == 0) {
      EXPECT_EQ(moments.at("first.weight").sizes(), (at::IntArrayRef{7, 5}));
      EXPECT_EQ(moments.at("steps").item<int64_t>(), 1);
    }
    nn::scatter_state(moments, after.state());
    gradients(first, 1);
    gradients(second, 1);
    before.step(0.1);
    after.step(0.1);
    expect_same_tensors(global_tensors(*second, false), global_tensors(*first, false), "weights after a step");
  });
}

TEST(Moments, of_an_optimizer_that_it_does_not_know_are_refused) {
  const Grid alone = one_worker();
  nn::Linear layer = layer_on(Layout(alone.shape(), {7, 5}), alone);
  torch::optim::LBFGS optimizer(layer->parameters());
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { state_of(optimizer, nn::parameters_of(*layer)); }),
            "the moments of an optimizer: expected SGD, Adam, AdamW, Adagrad or RMSprop of torch::optim");
}

}  // namespace
}  // namespace adjoin::parallel
