#include "adjoin/nn/state.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "adjoin/nn/distributed/batch_norm.hpp"
#include "adjoin/nn/distributed/linear.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// A weight, a bias and running statistics, each on a layout of its own.
struct RandomlyPlaced : torch::nn::Module {
  RandomlyPlaced(uint64_t seed, const Grid& grid) {
    Numbers draw(seed);
    const auto layout = [&](const std::vector<int64_t>& shape) {
      return random_layout(draw.seed(), random_grid(draw.seed(), grid.world().size()), shape, Kind::copied);
    };
    linear =
        register_module("linear", Linear(LinearOptions(7, 5), LayerLayouts{layout({5, 7}), {}, at::kDouble}, grid));
    norm = register_module("norm", BatchNorm1d(BatchNormOptions(5), LayerLayouts{layout({5}), {}, at::kDouble}, grid));
  }
  Linear linear{nullptr};
  BatchNorm1d norm{nullptr};
};

struct OneWorker : torch::nn::Module {
  OneWorker() {
    register_module("linear", linear);
    register_module("norm", norm);
    to(at::kDouble);
  }
  torch::nn::Linear linear{7, 5};
  torch::nn::BatchNorm1d norm{5};
};

/// Numbers that all differ, for the parameters and buffers of a module.
State numbered(const torch::nn::Module& module) {
  State state;
  double first = 0;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      const at::Tensor& tensor = item.value();
      state[item.key()] = at::arange(first, first + static_cast<double>(tensor.numel())).view(tensor.sizes());
      first += static_cast<double>(tensor.numel());
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return state;
}

TEST(State, comes_back_from_any_layout) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"all", world.size()}});
    const State global = numbered(OneWorker());
    for_each_seed(world, 15, [&](uint64_t seed) {
      const RandomlyPlaced first(seed, grid), second(seed + 1000, grid);
      const int giver = static_cast<int>(seed) % world.size(), taker = (giver + 1) % world.size();
      scatter_state(world.rank() == giver ? global : State(), parameters_of(first), giver);
      scatter_state(gather_state(parameters_of(first), taker), parameters_of(second), taker);
      const State back = gather_state(parameters_of(second), giver);
      EXPECT_EQ(back.size(), world.rank() == giver ? global.size() : 0);
      for (const auto& [name, tensor] : back)
        EXPECT_TRUE(at::allclose(tensor.to(at::kFloat), global.at(name), 0, 0)) << name;
      for (const Parameter& p : parameters_of(second))  // also copies that are not the first
        EXPECT_TRUE(p.tensor.equal(laid_out(global.at(p.name), p.layout, p.grid).local.to(p.tensor.scalar_type())))
            << p.name;
    });
  });
}

TEST(State, is_that_of_a_twin_in_torch_and_no_view_of_the_module) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const RandomlyPlaced module(5, Grid(world, {{"all", world.size()}}));
    OneWorker twin;
    scatter_state(numbered(twin), parameters_of(module));
    const State state = gather_state(parameters_of(module));
    if (world.rank() != 0) return;
    const at::NoGradGuard no_gradient;
    for (const at::Tensor& tensor : module.parameters()) tensor.zero_();
    const State expected = numbered(twin);
    ASSERT_EQ(state.size(), expected.size());
    for (const auto& [name, tensor] : state)
      EXPECT_TRUE(at::allclose(tensor.to(at::kFloat), expected.at(name), 0, 0)) << name;
  });
}

TEST(State, of_another_module_is_refused_on_every_worker) {
  for_each_world({1, 3}, [](const Communicator& world) {
    const RandomlyPlaced module(3, Grid(world, {{"all", world.size()}}));
    const int giver = world.size() - 1;
    const auto refusal = [&](const auto& change) {
      State state = numbered(OneWorker());
      change(state);
      if (world.rank() != giver) state.clear();
      return thrown_by<InvalidArgument>([&] { scatter_state(state, parameters_of(module), giver); });
    };
    EXPECT_EQ(refusal([](State& s) { s.erase("linear.bias"); }), "scatter_state: there is no tensor 'linear.bias'");
    EXPECT_EQ(refusal([](State& s) { s["more"] = at::ones({1}); }), "scatter_state: the module has no tensor 'more'");
    EXPECT_EQ(refusal([](State& s) {
                s["linear.weight"] = at::ones({7, 5});
              }),
              "scatter_state: tensor 'linear.weight' has shape [7, 5], but the module's has [5, 7]");
  });
}

TEST(State, of_pieces_can_be_kept_and_swapped) {
  OneWorker module;
  const Grid alone(Communicator(), {{"all", 1}});
  const std::vector<Parameter> pieces = parameters_of(module, alone), kept = cloned(pieces);
  const at::NoGradGuard no_gradient;
  const State before = numbered(module);
  scatter_state(before, kept);
  for (const Parameter& piece : pieces) piece.tensor.fill_(2);
  const void* const memory = pieces[0].tensor.const_data_ptr();
  swap_tensors(pieces, kept);
  EXPECT_EQ(pieces[0].tensor.const_data_ptr(), memory) << "which others may read too";
  for (const auto& [name, tensor] : gather_state(pieces)) EXPECT_TRUE(tensor.equal(before.at(name).to(tensor))) << name;
  EXPECT_TRUE(kept[0].tensor.equal(at::full_like(kept[0].tensor, 2)));
  EXPECT_TRUE(module.linear->weight.equal(pieces[0].tensor));
  EXPECT_THROW(swap_tensors(pieces, {}), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::nn
