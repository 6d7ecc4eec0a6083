#include "adjoin/parallel/sharded_sequential.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <map>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/data_parallel.hpp"
#include "adjoin/parallel/moments.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/sequentials.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;
using torch::nn::Sequential;

/// Rows that 2 to 4 ranks share unevenly, or fewer than ranks; a frozen layer; children that give their input back or change
/// it; a layer that is used twice.
Sequential mixed_net(int64_t seed) {
  using namespace torch::nn;
  Linear frozen(7, 7), twice(7, 7);
  for (const at::Tensor& weight : frozen->parameters()) weight.requires_grad_(false);
  return filled(Sequential(Linear(5, 7), ReLU(ReLUOptions(true)), Dropout(0.0), frozen, twice,
                           LayerNorm(LayerNormOptions({7})), twice, Tanh(), Linear(7, 2)),
                seed);
}

double clip_as_one_worker(const std::vector<at::Tensor>& parameters, double clip) {
  double squares = 0;
  for (const at::Tensor& p : parameters)
    if (p.grad().defined()) squares += p.grad().square().sum().item<double>();
  const double norm = std::sqrt(squares);
  for (const at::Tensor& p : parameters)
    if (p.grad().defined() && norm > clip) p.mutable_grad().mul_(clip / norm);
  return norm;
}

/// Each once, also of a layer that is used twice.
std::vector<at::Tensor> trained(const torch::nn::Module& module) {
  std::vector<at::Tensor> tensors;
  for (const nn::Parameter& p : nn::parameters_of(module, one_worker()))
    if (is_trained(p)) tensors.push_back(p.tensor);
  return tensors;
}

void expect_same_weights(const ShardedSequential& net, const Sequential& single) {
  const nn::State found = nn::gather_state(net.parameters());
  if (net.grid().world().rank() != 0) return;
  const auto expected = single->named_parameters();
  for (const auto& [name, tensor] : found)
    if (const at::Tensor* weight = expected.find(name)) {
      EXPECT_TRUE(at::allclose(tensor, *weight, 1e-9, 1e-10)) << name;
    }
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

template <class Optimizer, class Options>
MakeOptimizer made_with(Options options) {
  return [options](const std::vector<at::Tensor>& tensors) { return std::make_unique<Optimizer>(tensors, options); };
}

/// The optimizers of torch::optim that work by elements. Their epsilons are large, as they would blow up how sums round.
std::map<std::string, MakeOptimizer> optimizers() {
  using namespace torch::optim;
  return {{"SGD", made_with<SGD>(SGDOptions(0.1).momentum(0.9).weight_decay(0.01))},
          {"Adam", made_with<Adam>(AdamOptions(0.02).eps(1e-4).amsgrad(true))},
          {"AdamW", made_with<AdamW>(torch::optim::AdamWOptions(0.02).eps(1e-4))},
          {"Adagrad", made_with<Adagrad>(AdagradOptions(0.02).eps(1e-4))},
          {"RMSprop", made_with<RMSprop>(RMSpropOptions(0.01).eps(1e-4).momentum(0.9).centered(true))}};
}

constexpr double kClip = 0.5;

TEST(ShardedSequential, trains_as_one_worker_with_the_joined_batch) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const auto& [name, make] : optimizers())
      for_each_seed(world, 3, [&, &make = make](uint64_t seed) {
        Numbers draw(seed);
        Sequential module = mixed_net(world.rank() * 100), single = mixed_net(0);
        ShardedSequential net(module, world);
        const auto optimizer = make(net.shards()), reference = make(trained(*single));
        for (int64_t step = 0; step < 3; ++step) {
          const int64_t micro_batches = draw.from(1, 2);
          const at::Tensor all = drawn({100, 5}, step);
          int64_t total = 0;
          std::map<std::pair<int, int64_t>, at::Tensor> parts;
          for (int rank = 0; rank < world.size(); ++rank)
            for (int64_t i = 0; i < micro_batches; ++i) {
              const int64_t samples = draw.one_in(4) ? 0 : draw.from(1, 5);
              parts[{rank, i}] = all.narrow(0, total, samples);
              total += samples;
            }
          double found = 0, expected = 0;
          for (int64_t i = 0; i < micro_batches; ++i) {
            const at::Tensor mine = parts[{world.rank(), i}];
            found = net.backward(mean_square(net.forward(mine)), mine.size(0), {.last = i + 1 == micro_batches});
          }
          reference->zero_grad();
          if (total > 0) {
            const at::Tensor loss = mean_square(single->forward(all.narrow(0, 0, total)));
            loss.backward();
            expected = loss.item<double>();
          }
          EXPECT_NEAR(found, expected, 1e-9);
          const double norm = clip_as_one_worker(trained(*single), kClip);
          EXPECT_NEAR(net.step(*optimizer, kClip).norm, norm, 1e-9);
          reference->step();
          expect_same_weights(net, single);
        }
      });
  });
}

/// This rank's share of the same batch in every world.
void step_on_shares(ShardedSequential& net, torch::optim::Optimizer& optimizer, int64_t step) {
  const Communicator& world = net.grid().world();
  const Range mine = Split::balanced(9, world.size(), 0).ranges(world.rank())[0];
  const at::Tensor x = drawn({9, 5}, step).narrow(0, mine.begin, mine.size());
  net.backward(mean_square(net.forward(x)), mine.size());
  net.step(optimizer, kClip);
}

TEST(ShardedSequential, goes_on_with_weights_and_moments_on_fewer_ranks) {
  for_each_world({2, 4}, [](const Communicator& world) {
    for (const auto& [name, make] : optimizers()) {
      ShardedSequential net(mixed_net(0), world);
      const auto optimizer = make(net.shards());
      for (int64_t step = 0; step < 2; ++step) step_on_shares(net, *optimizer, step);
      const nn::State weights = nn::gather_state(net.parameters());
      const nn::State moments = nn::gather_state(state_of(*optimizer, net.parameters()));
      for (int64_t step = 2; step < 4; ++step) step_on_shares(net, *optimizer, step);
      const nn::State expected = nn::gather_state(net.parameters());
      for (int fewer = world.size() / 2; fewer > 0; fewer /= 2) {
        const auto group = world.split(world.rank() < fewer ? 0 : 1, world.rank());
        if (world.rank() >= fewer) continue;
        ShardedSequential other(mixed_net(7), *group);
        const auto goes_on = make(other.shards());
        nn::scatter_state(weights, other.parameters());
        nn::scatter_state(moments, state_of(*goes_on, other.parameters()));
        for (int64_t step = 2; step < 4; ++step) step_on_shares(other, *goes_on, step);
        for (const auto& [key, tensor] : nn::gather_state(other.parameters()))
          EXPECT_TRUE(at::allclose(tensor, expected.at(key), 1e-9, 1e-10)) << name << " " << key << " on " << fewer;
      }
    }
  });
}

/// Adds up what it has seen, and passes it on.
struct SumsImpl : torch::nn::Module {
  SumsImpl() : sum(register_buffer("sum", at::zeros({3}))), calls(register_buffer("calls", at::zeros({}, at::kLong))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::NoGradGuard no_gradient;
    if (x.size(0) > 0) sum.add_(x.mean(0));
    calls.add_(x.size(0));
    return x;
  }
  at::Tensor sum, calls;
};
TORCH_MODULE(Sums);

TEST(ShardedSequential, makes_buffers_means_by_samples_or_those_of_the_first_rank_with_any) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    Sequential module(Sums(), torch::nn::Linear(3, 2));
    ShardedSequential net(module, world);
    EXPECT_EQ(net.parameters()[0].name, "0.sum");
    const bool skips = world.size() > 1;  // so that the first rank has no sample, the others two, three, and so on
    const auto samples_of = [&](int rank) { return skips && rank == 0 ? 0 : rank + 1; };
    at::Tensor expected = at::zeros({3});
    int64_t samples = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      samples += samples_of(rank);
      if (samples_of(rank) > 0) expected += samples_of(rank) * at::full({3}, rank, at::kFloat);
    }
    const int64_t mine = samples_of(world.rank());
    net.backward(mean_square(net.forward(at::full({mine, 3}, world.rank(), at::kFloat))), mine);
    EXPECT_TRUE(at::allclose(module->buffers()[0], expected / samples));
    EXPECT_EQ(module->buffers()[1].item<int64_t>(), skips ? 2 : 1);
  });
}

TEST(ShardedSequential, leaves_all_as_it_was_where_no_rank_has_samples_or_one_has_a_nan) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    ShardedSequential net(mixed_net(3), world);
    torch::optim::SGD optimizer(net.shards(), torch::optim::SGDOptions(0.1).momentum(0.9));
    step_on_shares(net, optimizer, 0);
    const nn::State before = nn::gather_state(net.parameters());
    EXPECT_EQ(net.backward(mean_square(net.forward(at::zeros({0, 5}, at::kDouble))), 0), 0);
    for (const at::Tensor& shard : net.shards()) EXPECT_FALSE(shard.grad().defined());
    net.step(optimizer);
    const double value = world.rank() + 1 == world.size() ? std::numeric_limits<double>::quiet_NaN() : 1;
    net.backward(mean_square(net.forward(at::full({2, 5}, value, at::kDouble))), 2);
    EXPECT_TRUE(net.step(optimizer).skipped);
    for (const auto& [name, tensor] : nn::gather_state(net.parameters()))
      EXPECT_TRUE(tensor.equal(before.at(name))) << name;
  });
}

/// Gives rows that it has learned, whatever it gets: a view of its weight.
struct LearnedRowsImpl : torch::nn::Module {
  LearnedRowsImpl() : rows(register_parameter("rows", at::ones({1, 5}))) {}
  at::Tensor forward(const at::Tensor& x) { return rows.expand({x.size(0), 5}); }
  at::Tensor rows;
};
TORCH_MODULE(LearnedRows);

// LibTorch comes to a batch norm's bias before its weight where there are no samples, and after it otherwise.
TEST(ShardedSequential, trains_children_that_view_weights_or_come_to_them_in_another_order_without_samples) {
  using namespace torch::nn;
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto made = [] {
      Sequential net = filled(Sequential(LearnedRows(), Linear(5, 3), BatchNorm1d(3)), 1);
      net->eval();
      return net;
    };
    Sequential single = made();
    ShardedSequential net(made(), world);
    torch::optim::SGD optimizer(net.shards(), 0.1), reference(single->parameters(), 0.1);
    const int64_t others = world.size() == 1 ? 1 : world.size() - 1;
    const int64_t mine = world.size() > 1 && world.rank() == 0 ? 0 : 4;
    for (int step = 0; step < 2; ++step) {
      net.backward(mean_square(net.forward(at::ones({mine, 5}, at::kDouble))), mine);
      net.step(optimizer);
      reference.zero_grad();
      mean_square(single->forward(at::ones({4 * others, 5}, at::kDouble))).backward();
      reference.step();
      expect_same_weights(net, single);
    }
  });
}

TEST(ShardedSequential, has_moments_by_the_options_of_each_group) {
  using namespace torch::optim;
  for_each_world({1, 2}, [](const Communicator& world) {
    ShardedSequential net(mixed_net(1), world);
    const SGDOptions with_momentum = SGDOptions(0.1).momentum(0.9);
    SGD optimizer({OptimizerParamGroup(net.shards(), std::make_unique<SGDOptions>(with_momentum))}, SGDOptions(0.1));
    EXPECT_EQ(state_of(optimizer, net.parameters()).size(), net.shards().size());
    SGD dampened(net.shards(), SGDOptions(with_momentum).dampening(0.5));
    EXPECT_EQ(
        thrown_by<InvalidArgument>([&] { state_of(dampened, net.parameters()); }),
        "the moments of SGD: expected no dampening, because with it SGD's first step differs from all later ones, and "
        "a moment of zeros in a checkpoint does not show whether that step was taken");
  });
}

TEST(ShardedSequential, ends_loops_of_unequal_length_together) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    ShardedSequential net(mixed_net(3), world);
    torch::optim::SGD optimizer(net.shards(), 0.1);
    int steps = 0;
    for (; net.any(steps <= world.rank()); ++steps) {
      const int64_t samples = steps <= world.rank() ? 1 : 0;
      net.backward(mean_square(net.forward(at::ones({samples, 5}, at::kDouble))), samples);
      net.step(optimizer);
    }
    EXPECT_EQ(steps, world.size());
  });
}

/// That all ranks refuse it with a message that has `expected` in it.
template <class Exception = InvalidArgument, class Function>
void expect_message(Function function, const std::string& expected) {
  const std::string message = thrown_by<Exception>(function);
  EXPECT_NE(message.find(expected), std::string::npos) << message;
}

TEST(ShardedSequential, refuses_what_does_not_work_on_shards) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    Sequential module = mixed_net(1);
    ShardedSequential net(module, world);
    const auto loss = [&] { return mean_square(net.forward(at::ones({2, 5}, at::kDouble))); };
    torch::optim::LBFGS lbfgs(net.shards());
    EXPECT_EQ(
        thrown_by<InvalidArgument>([&] { net.step(lbfgs); }),
        "ShardedSequential::step: expected an optimizer that works element by element, got LBFGS, which needs whole "
        "gradients, while each rank has only shards");
    torch::optim::SGD others(module->parameters(), 0.1), optimizer(net.shards(), 0.1);
    expect_message([&] { net.step(others); }, "expected an optimizer of shards(), got one of other tensors");
    expect_message([&] { loss().backward(); }, "call its backward(mean_loss, samples) instead of the loss's own");
    expect_message([&] { net.backward(at::ones({2}).requires_grad_(), 1); },
                   "a single number, also for 0 samples, got [2]");
    expect_message([&] { net.backward({}, 0); }, "an undefined tensor");
    expect_message([&] { net.backward(loss(), -1); }, "0 samples or more, got -1");
    net.backward(loss(), 2, {.last = false});
    expect_message([&] { net.step(optimizer); }, "expected a backward with last = true");
    net.backward(loss(), 2);
    net.step(optimizer);
    expect_message([&] { ShardedSequential(module, world); },
                   "another object already sums the gradients of '0.weight'");
    expect_message([&] { DataParallel(*module, world); }, "'0.weight' already belongs to another DataParallel");
    module->parameters()[2].requires_grad_();
    expect_message([&] { net.backward(loss(), 2); }, "'3.weight' did not require gradients");
    const at::Tensor norm = module->parameters()[6];
    expect_message<c10::Error>([&] { norm.sum(); },
                               "sharded over the ranks and has values only while its segment runs");
    EXPECT_THROW(module->forward(at::ones({2, 5}, at::kDouble)), c10::Error);
  });
}

TEST(ShardedSequential, refuses_modules_that_it_cannot_shard) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const bool is_last = world.rank() + 1 == world.size();
    expect_message([&] { ShardedSequential(Sequential(), world); }, "expected at least 1 child, got none");
    expect_message([&] { ShardedSequential(Sequential(torch::nn::Linear(3, is_last ? 5 : 4)), world); },
                   "ShardedSequential: the modules of the ranks differ: rank 0 has '0.weight' [4, 3] Float");
    Sequential own(torch::nn::Linear(3, 2));
    own->register_parameter("scale", at::ones({2}));
    expect_message([&] { ShardedSequential(own, world); },
                   "expected every parameter to belong to a child, got 'scale'");
    ShardedSequential two(Sequential(torch::nn::LSTM(3, 2)), world);
    expect_message([&] { two.forward(at::ones({1, 1, 3})); }, "child 0, a torch::nn::LSTMImpl, does not");
    ShardedSequential words(Sequential(torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 2).sparse(true))), world);
    expect_message([&] { words.backward(words.forward(at::ones({1}, at::kLong)).sum(), 1); }, "'0.weight' is sparse");
  });
}

}  // namespace
}  // namespace adjoin::parallel
