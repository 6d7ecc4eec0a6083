#include "adjoin/parallel/adamw.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <cmath>

#include "adjoin/movement/move.hpp"
#include "adjoin/nn/linear.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

/// Two layers, one large enough to travel alone, of sizes that nothing divides.
struct Layers : torch::nn::Module {
  explicit Layers(const Grid& grid) {
    const auto layer = [&](int64_t in, int64_t out) {
      return nn::ColumnParallelLinear(
          nn::ParallelLinearOptions{
              .in_features = in, .out_features = out, .gather_output = true, .tensor = at::kDouble},
          grid, "tp");
    };
    first = register_module("first", layer(7, 301));
    second = register_module("second", layer(301, 223));
    nn::initialize(*this, 3);
  }
  nn::ColumnParallelLinear first{nullptr}, second{nullptr};
};

/// The loss of this worker's rows of a batch of five.
at::Tensor loss(Layers& layers, const Communicator& data_group, int64_t step) {
  const at::Tensor x = random_tensor({5, 7}, Kind::replicated, Communicator(), step);
  const Range mine = Split::balanced(5, data_group.size(), 0).ranges(data_group.rank())[0];
  return layers.second(layers.first(x.narrow(0, mine.begin, mine.size())).tanh()).square().sum() / 5;
}

/// Scales the gradients to a norm of at most `limit` and returns what it was. (torch's own divides by norm + 1e-6.)
double clip(const torch::nn::Module& module, double limit) {
  double squares = 0;
  for (const at::Tensor& p : module.parameters()) squares += p.grad().square().sum().item<double>();
  const double norm = std::sqrt(squares);
  for (const at::Tensor& p : module.parameters()) p.grad().mul_(std::min(1.0, limit / norm));
  return norm;
}

/// All workers have a copy of every parameter.
Grid data_parallel(const Communicator& world) {
  return Grid(world, {{"dp", world.size()}, {"tp", 1}});
}

/// What the first of the workers that hold copies has, for all of them.
at::Tensor on_all(const at::Tensor& x, const nn::Parameter& parameter) {
  return move(x, first_copy(parameter.layout), stored(parameter.layout), parameter.grid);
}

AdamWOptions options() {
  return {.weight_decay = 0.1, .clip = 0.5};
}

/// Two parameters that lie otherwise on two grids of the same workers.
struct CutAndCopied : nn::ShardedModule {
  CutAndCopied(const Grid& a, const Grid& b, int workers) {
    cut = register_piece("cut", {nn::along(a, "w", {2}, Split::balanced(2, workers, 0)), a, nn::Initial::ones()},
                         at::kFloat);
    copied = register_piece("copied", {nn::along(b, "v", {2}), b, nn::Initial::ones()}, at::kFloat);
    nn::initialize(*this, 1);
  }
  at::Tensor cut, copied;
};

TEST(DataParallelAdamW, takes_parameters_of_several_grids_of_the_same_workers) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    CutAndCopied module(Grid(world, {{"w", world.size()}}), Grid(world, {{"v", 1}, {"u", world.size()}}), world.size());
    DataParallelAdamW optimizer(nn::parameters_of(module), {.weight_decay = 0, .clip = 0});
    module.cut.mutable_grad() = at::ones_like(module.cut);
    module.copied.mutable_grad() = at::ones_like(module.copied) / world.size();
    EXPECT_NEAR(optimizer.step(0.5), 2, 1e-6);  // of four ones
    EXPECT_TRUE(at::allclose(module.cut, at::full_like(module.cut, 0.5)));
    EXPECT_TRUE(at::allclose(module.copied, at::full_like(module.copied, 0.5)));
  });
}

TEST(DataParallelAdamW, takes_a_parameter_whose_memory_is_in_another_order) {
  torch::nn::Linear layer(torch::nn::LinearOptions(300, 301).bias(false));
  layer->weight.set_data(at::ones({300, 301}).t());
  DataParallelAdamW optimizer(nn::parameters_of(*layer, Grid(Communicator(), {{"dp", 1}})), {.weight_decay = 0});
  layer->weight.mutable_grad() = at::ones_like(layer->weight);
  optimizer.step(0.5);
  EXPECT_TRUE(at::allclose(layer->weight, at::full({301, 300}, 0.5)));
}

TEST(DataParallelAdamW, leaves_frozen_parameters_alone) {
  for_each_world({1, 2}, [](const Communicator& world) {
    Layers layers(data_parallel(world));
    const at::Tensor before = layers.first->parameters()[0].detach().clone();
    layers.first->parameters()[0].requires_grad_(false);
    DataParallelAdamW optimizer(nn::parameters_of(layers), {.weight_decay = 0.5});
    const at::Tensor trained = layers.second->parameters()[0].detach().clone();
    loss(layers, world, 0).backward();
    optimizer.step(0.1);
    EXPECT_TRUE(at::equal(layers.first->parameters()[0], before));
    EXPECT_FALSE(at::equal(layers.second->parameters()[0], trained));
  });
}

TEST(DataParallelAdamW, on_any_grid_is_torchs_adamw_on_one_worker_with_clipping_and_decay) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const bool split_in_two : {false, true}) {
      if (split_in_two && world.size() % 2 != 0) continue;
      const int tp = split_in_two ? 2 : 1;
      const Grid grid(world, {{"dp", world.size() / tp}, {"tp", tp}});
      Layers layers(grid), single(one_worker());
      DataParallelAdamW optimizer(nn::parameters_of(layers), options());

      std::vector<at::Tensor> matrices, vectors;
      for (const at::Tensor& p : single.parameters()) (p.dim() > 1 ? matrices : vectors).push_back(p);
      torch::optim::AdamW reference({torch::optim::OptimizerParamGroup(matrices)},
                                    torch::optim::AdamWOptions(0.01).weight_decay(0.1));
      reference.add_param_group(torch::optim::OptimizerParamGroup(
          vectors, std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(0.01).weight_decay(0))));
      for (int64_t step = 0; step < 4; ++step) {
        loss(layers, grid.axis("dp"), step).backward();
        const double norm = optimizer.step(0.01);
        loss(single, Communicator(), step).backward();
        EXPECT_NEAR(norm, clip(single, 0.5), 1e-12 * norm);
        reference.step();
        reference.zero_grad();
      }
      for (const auto& [name, tensor] : global_tensors(single, false))
        EXPECT_TRUE(at::allclose(global_tensors(layers, false).at(name), tensor, 1e-10, 1e-12)) << name;
    }
  });
}

TEST(DataParallelAdamW, continues_from_the_state_that_it_gave) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto train = [&](Layers& layers, DataParallelAdamW& optimizer, int64_t begin, int64_t end) {
      for (int64_t step = begin; step < end; ++step) {
        loss(layers, world, step).backward();
        optimizer.step(0.01);
      }
    };
    Layers whole(data_parallel(world)), halves(data_parallel(world));
    DataParallelAdamW straight(nn::parameters_of(whole), options());
    train(whole, straight, 0, 6);

    DataParallelAdamW before(nn::parameters_of(halves), options());
    train(halves, before, 0, 3);
    std::map<std::pair<std::string, Moment>, at::Tensor> state;
    for (size_t i = 0; i < before.parameters().size(); ++i)
      for (const Moment which : {Moment::first, Moment::second})
        state[{before.parameters()[i].name, which}] = on_all(before.moment(i, which), before.parameters()[i]);
    DataParallelAdamW after(nn::parameters_of(halves), options());
    after.load_state(3, [&](const nn::Parameter& p, Moment which) { return state.at({p.name, which}); });
    train(halves, after, 3, 6);
    for (const auto& [name, tensor] : global_tensors(whole, false))
      EXPECT_TRUE(global_tensors(halves, false).at(name).equal(tensor)) << name;
  });
}

}  // namespace
}  // namespace adjoin::parallel
