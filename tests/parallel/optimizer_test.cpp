#include "adjoin/parallel/optimizer.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/muon.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/torchs_optimizers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

/// Two layers, one large enough to travel alone, of sizes that nothing divides.
struct Layers : torch::nn::Module {
  explicit Layers(const Grid& grid) : group(grid.axis("tp")) {
    const auto layer = [&](int64_t in, int64_t out) {
      return nn::ParallelLinear(nn::ParallelLinearOptions{.in_features = in,
                                                          .out_features = out,
                                                          .cut = nn::ParallelLinearOptions::Cut::outputs,
                                                          .tensor = at::kDouble},
                                grid, "tp");
    };
    first = register_module("first", layer(7, 301));
    second = register_module("second", layer(301, 223));
    nn::initialize(*this, 3);
  }
  at::Tensor operator()(const at::Tensor& x) {
    const auto gathered = [&](const at::Tensor& y, const Split& split) {
      return gather_from(y, group, split.along(1));
    };
    return gathered(second(gathered(first(x), first->split()).tanh()), second->split());
  }

  Communicator group;
  nn::ParallelLinear first{nullptr}, second{nullptr};
};

/// The loss of this worker's rows of a batch of five.
at::Tensor loss(Layers& layers, const Communicator& data_group, int64_t step) {
  const at::Tensor x = random_tensor({5, 7}, Kind::replicated, Communicator(), step);
  const Range mine = Split::balanced(5, data_group.size(), 0).ranges(data_group.rank())[0];
  return layers(x.narrow(0, mine.begin, mine.size())).square().sum() / 5;
}

/// All workers have a copy of every parameter.
Grid data_parallel(const Communicator& world) {
  return Grid(world, {{"dp", world.size()}, {"tp", 1}});
}

OptimizerOptions options() {
  return {.weight_decay = 0.1, .clip = 0.5};
}

/// Two parameters that lie otherwise on two grids of the same workers.
struct CutAndCopied : nn::ShardedModule {
  CutAndCopied(const Grid& a, const Grid& b, int workers) {
    cut = register_piece(
        "cut", {nn::layout_cut_along(a, "w", {2}, Split::balanced(2, workers, 0)), a, nn::Initial::ones()}, at::kFloat);
    copied = register_piece("copied", {nn::layout_cut_along(b, "v", {2}), b, nn::Initial::ones()}, at::kFloat);
    nn::initialize(*this, 1);
  }
  at::Tensor cut, copied;
};

TEST(Optimizer, takes_parameters_of_several_grids_of_the_same_workers) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    CutAndCopied module(Grid(world, {{"w", world.size()}}), Grid(world, {{"v", 1}, {"u", world.size()}}), world.size());
    Optimizer optimizer(nn::parameters_of(module), adamw());
    module.cut.mutable_grad() = at::ones_like(module.cut);
    module.copied.mutable_grad() = at::ones_like(module.copied) / world.size();
    EXPECT_NEAR(optimizer.step(0.5).norm, 2, 1e-6);  // of four ones
    EXPECT_TRUE(at::allclose(module.cut, at::full_like(module.cut, 0.5)));
    EXPECT_TRUE(at::allclose(module.copied, at::full_like(module.copied, 0.5)));
  });
}

TEST(Optimizer, takes_the_norm_over_the_workers_that_it_is_given) {
  for_each_world({2, 4}, [](const Communicator& world) {
    if (world.size() % 2 != 0) return;  // an MPI job's world
    const int half = world.size() / 2;
    const Communicator mine = *world.split(world.rank() / half, world.rank());  // each half has a model of its own
    CutAndCopied module(Grid(mine, {{"w", half}}), Grid(mine, {{"v", 1}, {"u", half}}), half);
    Optimizer optimizer(nn::parameters_of(module), sgd(), {.workers = world});
    module.cut.mutable_grad() = at::ones_like(module.cut);
    module.copied.mutable_grad() = at::ones_like(module.copied) / half;
    if (world.rank() >= half) module.cut.mutable_grad().fill_(3);
    EXPECT_NEAR(optimizer.step(0.5).norm, std::sqrt(4 + 2 * 9 + 2), 1e-6);
    // A fault in one half makes both skip the step.
    if (world.rank() == 0) module.cut.mutable_grad() = at::full_like(module.cut, std::nan(""));
    EXPECT_TRUE(optimizer.step(0.5).skipped);
  });
}

TEST(Optimizer, keeps_shards_of_whole_rows) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    Layers layers(data_parallel(world));
    int64_t kept = 0;
    const Optimizer optimizer(nn::parameters_of(layers), sgd({.momentum = 0.5}));
    for (const nn::Parameter& moment : optimizer.moments()) {
      const int64_t rows = moment.layout.shape()[0], rank = world.rank(), size = world.size();
      EXPECT_EQ(moment.tensor.size(0), rows / size + (rank < rows % size ? 1 : 0)) << moment.name;
      EXPECT_EQ(moment.tensor.sizes().slice(1), at::IntArrayRef(moment.layout.shape()).slice(1)) << moment.name;
      kept += moment.tensor.numel();
    }
    std::array<int64_t, 1> all{kept};
    world.all_reduce(buffer(all));
    EXPECT_EQ(all[0], 301 * 7 + 301 + 223 * 301 + 223);
  });
}

/// Of 4 MB of small parameters, which are sent in several messages.
TEST(Optimizer, has_packed_copies_of_a_message_at_a_time) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    torch::nn::Sequential layers;
    for (int i = 0; i < 100; ++i) {
      layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(100, 100).bias(false)));
      at::NoGradGuard no_gradient;
      layers->parameters().back().fill_(i);
    }
    const std::vector<nn::Parameter> parameters = nn::parameters_of(*layers, data_parallel(world), {"tp"});
    const PeakMemory memory;
    for (const nn::Parameter& of : parameters) of.tensor.mutable_grad() = at::full({100, 100}, world.rank() + 1.0F);
    const int64_t gradients = memory.current_bytes();
    Optimizer optimizer(parameters, sgd({}));
    optimizer.step(0.5);
    const double ranks = world.size(), sum = ranks * (ranks + 1) / 2;
    for (int i = 0; i < 100; ++i)
      EXPECT_TRUE(
          at::equal(parameters[static_cast<size_t>(i)].tensor, at::full({100, 100}, i - 0.5 * sum, at::kFloat)));
    const int64_t more = memory.peak_bytes() - gradients;
    // One worker has all gradients in one piece, of which it computes the norm, and its other weights in one piece after it.
    EXPECT_LE(more, world.size() == 1 ? gradients + gradients / 20 : (3 << 20) / 2) << "of " << gradients;
  });
}

TEST(Optimizer, leaves_frozen_parameters_alone) {
  for_each_world({1, 2}, [](const Communicator& world) {
    Layers layers(data_parallel(world));
    const at::Tensor before = layers.first->parameters()[0].detach().clone();
    layers.first->parameters()[0].requires_grad_(false);
    Optimizer optimizer(nn::parameters_of(layers), adamw(), {.weight_decay = 0.5});
    const at::Tensor trained = layers.second->parameters()[0].detach().clone();
    loss(layers, world, 0).backward();
    optimizer.step(0.1);
    EXPECT_TRUE(at::equal(layers.first->parameters()[0], before));
    EXPECT_FALSE(at::equal(layers.second->parameters()[0], trained));
  });
}

/// Options of a stage of ZeRO, where all workers run backward through all parameters in one order.
OptimizerOptions of_stage(int zero) {
  OptimizerOptions of = options();
  of.zero = zero;
  of.sums_in_backward = [](const nn::Parameter&) { return true; };
  return of;
}

/// Four steps of a rule on all grids of 1 to 4 workers in stages 0 to 2 of ZeRO, with clipping and decay, are those of an optimizer
/// of torch::optim on one worker. The loss is scaled too, which is to change nothing.
template <class Reference, class Options>
void expect_as_torchs(const Rule& rule, Options of_all) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (const int layout : {0, 1, 2, 3, 4, 5}) {
      const int tp = 1 + layout / 3, zero = layout % 3;
      if (world.size() % tp != 0) continue;
      const Grid grid(world, {{"dp", world.size() / tp}, {"tp", tp}});
      Layers layers(grid), single(one_worker());
      OptimizerOptions more = of_stage(zero);
      more.joins_decays = layout % 2 == 1;
      Optimizer optimizer(nn::parameters_of(layers), rule, more);
      auto reference = torchs_optimizer<Reference>(single, of_all.weight_decay(0.1));
      for (int64_t step = 0; step < 4; ++step) {
        const double scale = step % 2 == 0 ? 1 : 1024;
        (loss(layers, grid.axis("dp"), step) * scale).backward();
        const Update update = optimizer.step(0.01, scale);
        EXPECT_FALSE(update.skipped);
        loss(single, Communicator(), step).backward();
        EXPECT_NEAR(update.norm, clip(single, 0.5), 1e-12 * update.norm);
        reference.step();
        reference.zero_grad();
      }
      for (const auto& [name, tensor] : global_tensors(single, false))
        EXPECT_TRUE(at::allclose(global_tensors(layers, false).at(name), tensor, 1e-10, 1e-12)) << name;
    }
  });
}

TEST(Optimizer, sums_within_backward_what_several_hosts_hold_once_it_was_added_to_as_often_as_before) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const Grid grid = data_parallel(world);
    const bool spans_hosts = grid.axis("dp").backend()->spans_hosts();
    for (const int zero : {0, 1}) {
      Layers layers(grid), single(one_worker());
      Optimizer optimizer(nn::parameters_of(layers), sgd(), of_stage(zero)),
          reference(nn::parameters_of(single), sgd(), options());
      for (int64_t step = 0; step < 4; ++step) {
        const int64_t passes = step == 3 ? 3 : 2;  // the third pass of the last step comes after the sums
        for (int64_t pass = 0; pass < passes; ++pass) {
          loss(layers, grid.axis("dp"), 3 * step + pass).backward();
          loss(single, Communicator(), 3 * step + pass).backward();
          const bool is_summed = spans_hosts && step > 0 && pass == 1;
          for (const at::Tensor& weight : layers.parameters()) EXPECT_EQ(weight.grad().defined(), !is_summed) << step;
        }
        const double norm = optimizer.step(0.01).norm, expected = reference.step(0.01).norm;
        EXPECT_NEAR(norm, expected, 1e-12 * expected);
      }
      for (const auto& [name, tensor] : global_tensors(single, false))
        EXPECT_TRUE(at::allclose(global_tensors(layers, false).at(name), tensor, 1e-10, 1e-12)) << name;
    }
  });
}

TEST(Optimizer, refuses_a_stage_that_it_does_not_have) {
  const Layers layers(data_parallel(Communicator()));
  try {
    Optimizer(nn::parameters_of(layers), sgd(), {.zero = 3});
    FAIL() << "nothing was refused";
  } catch (const InvalidArgument& e) {
    EXPECT_STREQ(e.what(), "Optimizer: expected zero from 0 to 2, got 3");
  }
}

TEST(Optimizer, with_adamw_is_torchs_adamw_on_one_worker) {
  expect_as_torchs<torch::optim::AdamW>(adamw(), torch::optim::AdamWOptions(0.01));
}

TEST(Optimizer, with_sgd_is_torchs_sgd_on_one_worker) {
  using torch::optim::SGD, torch::optim::SGDOptions;
  expect_as_torchs<SGD>(sgd(), SGDOptions(0.01));
  expect_as_torchs<SGD>(sgd({.momentum = 0.9}), SGDOptions(0.01).momentum(0.9));
  expect_as_torchs<SGD>(sgd({.momentum = 0.9, .nesterov = true}), SGDOptions(0.01).momentum(0.9).nesterov(true));
}

/// A rule of a user's own: Duchi et al., "Adaptive subgradient methods for online learning", JMLR 2011.
/// Four ones, replicated along the only axis: their norm is 2 however many workers hold them.
struct Replicated : nn::ShardedModule {
  explicit Replicated(const Grid& grid) {
    weight = register_piece("weight", {nn::layout_cut_along(grid, "tp", {4}), grid, nn::Initial::ones()}, at::kDouble);
    nn::initialize(*this, 1);
  }
  at::Tensor weight;
};

TEST(Optimizer, counts_a_replicated_gradient_once_in_the_norm) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    Replicated module(Grid(world, {{"tp", world.size()}}));
    module.weight.mutable_grad() = at::ones({4}, at::kDouble);
    EXPECT_NEAR(Optimizer(nn::parameters_of(module), sgd()).step(0.1).norm, 2, 1e-12);
  });
}

Rule adagrad(double epsilon) {
  return {"adagrad", {"sum"}, [epsilon](const FlatPiece& piece, const UpdateStep& step) {
            const at::Tensor gradient = piece.gradient.add(piece.value, step.decay);
            piece.moments[0].addcmul_(gradient, gradient);
            piece.value.addcdiv_(gradient, piece.moments[0].sqrt().add_(epsilon), -step.rate);
          }};
}

TEST(Optimizer, with_a_rule_of_a_users_own_is_that_rule_on_one_worker) {
  expect_as_torchs<torch::optim::Adagrad>(adagrad(1e-10), torch::optim::AdagradOptions(0.01));
}

/// All that a skipped step is to leave as it was.
std::map<std::string, at::Tensor> weights_and_moments(const torch::nn::Module& module, const Optimizer& optimizer) {
  std::map<std::string, at::Tensor> all = global_tensors(module, false);
  for (const nn::Parameter& moment : optimizer.moments()) all[moment.name] = moment.tensor;
  for (auto& [name, tensor] : all) tensor = tensor.clone();
  return all;
}

TEST(Optimizer, skips_a_gradient_that_is_not_finite_on_any_one_rank_on_all_alike) {
  const double bad_numbers[] = {std::nan(""), std::numeric_limits<double>::infinity()};
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    // Each has its own part of `cut`, and a copy of `copied` whose gradient is summed.
    CutAndCopied module(Grid(world, {{"w", world.size()}}), Grid(world, {{"v", 1}, {"u", world.size()}}), world.size());
    Optimizer optimizer(nn::parameters_of(module), adamw(), {.clip = 1});
    const auto step = [&] {
      for (const at::Tensor& p : {module.cut, module.copied})
        if (!p.grad().defined()) p.mutable_grad() = at::ones_like(p);
      return optimizer.step(0.5);
    };
    EXPECT_FALSE(step().skipped);
    const auto before = weights_and_moments(module, optimizer);
    for (int rank = 0; rank < world.size(); ++rank)
      for (const double bad : bad_numbers)
        for (const at::Tensor& p : {module.cut, module.copied}) {
          // A worker may have no element of `cut`: its neighbour's are then the ones that are bad.
          if (world.rank() == rank || (rank > 1 && world.rank() == 1)) p.mutable_grad() = at::full_like(p, bad);
          const Update update = step();
          EXPECT_TRUE(update.skipped) << "rank " << rank;
          EXPECT_FALSE(std::isfinite(update.norm));
          EXPECT_FALSE(p.grad().defined());
          for (const auto& [name, tensor] : weights_and_moments(module, optimizer))
            EXPECT_TRUE(tensor.equal(before.at(name))) << name;
          EXPECT_EQ(optimizer.steps_taken(), 1);
        }
    EXPECT_FALSE(step().skipped);
    EXPECT_EQ(optimizer.steps_taken(), 2);
  });
}

TEST(Optimizer, skips_a_bad_replica_whose_elements_another_worker_counts) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const Grid replicas(world, {{"v", 1}, {"u", world.size()}});
    struct Replicated : nn::ShardedModule {
      explicit Replicated(const Grid& grid) {
        x = register_piece("x", {Layout(grid.shape(), {3}), grid, nn::Initial::ones()}, at::kFloat);
        nn::initialize(*this, 1);
      }
      at::Tensor x;
    } module(replicas);
    Optimizer optimizer(nn::parameters_of(module), sgd());
    module.x.mutable_grad() = at::ones_like(module.x);
    if (world.rank() == world.size() - 1) module.x.mutable_grad().fill_(std::nan(""));
    EXPECT_TRUE(optimizer.step(1).skipped);
    EXPECT_TRUE(module.x.equal(at::ones_like(module.x)));
  });
}

TEST(Optimizer, keeps_shards_of_gradients_that_it_sums_within_backward) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"dp", world.size()}});
    const auto weight_after = [&](bool within) {
      torch::nn::Linear layer(3, 5);
      layer->to(at::kDouble);
      const at::NoGradGuard no_gradient;
      layer->weight.copy_(random_tensor({5, 3}, Kind::replicated, world));
      layer->bias.zero_();
      OptimizerOptions options{.clip = 0.1};
      if (within) options.zero = 2;
      Optimizer optimizer(nn::parameters_of(*layer, grid), adamw({.epsilon = 1e-4}), options);
      for (int64_t step = 0; step < 2; ++step) {
        const at::AutoGradMode with_gradient(true);
        for (int64_t pass = 0; pass < 2; ++pass) {
          const at::Tensor x = random_tensor({2, 3}, Kind::split, world, 10 * step + pass);
          layer(x).square().sum().backward();
          EXPECT_EQ(layer->weight.grad().defined(), !within);
          EXPECT_TRUE(layer->bias.grad().defined()) << "which is small";
        }
        optimizer.step(0.1);
      }
      return layer->weight.detach().clone();
    };
    EXPECT_TRUE(at::allclose(weight_after(true), weight_after(false), 1e-11, 1e-12));
  });
}

TEST(Optimizer, continues_from_the_state_that_it_gave) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (const Rule& rule : {adamw(), sgd({.momentum = 0.5}), muon()}) {
      const auto train = [&](Layers& layers, Optimizer& optimizer, int64_t begin, int64_t end) {
        for (int64_t step = begin; step < end; ++step) {
          loss(layers, world, step).backward();
          optimizer.step(0.01);
        }
      };
      Layers whole(data_parallel(world)), halves(data_parallel(world));
      Optimizer straight(nn::parameters_of(whole), rule, options());  // the others are of stages 0 and 2
      train(whole, straight, 0, 6);

      std::optional<Optimizer> before(std::in_place, nn::parameters_of(halves), rule, of_stage(0));
      train(halves, *before, 0, 3);
      const nn::State state = nn::gather_state(before->state());
      before.reset();  // two may not sum the same gradients within backward
      Optimizer after(nn::parameters_of(halves), rule, of_stage(2));
      nn::scatter_state(state, after.state());
      EXPECT_EQ(after.steps_taken(), 3);
      train(halves, after, 3, 6);
      for (const auto& [name, tensor] : global_tensors(whole, false))
        EXPECT_TRUE(at::allclose(global_tensors(halves, false).at(name), tensor, 1e-12, 1e-14)) << name;
    }
  });
}

}  // namespace
}  // namespace adjoin::parallel
