#include "adjoin/parallel/weights.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/headeronly/version.h>
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

void expect_same_weights(const Weights& weights, const Sequential& single) {
  const nn::State found = nn::gather_state(weights.parameters());
  if (weights.grid().world().rank() != 0) return;
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

WeightsOptions drawn_options(Numbers& draw) {
  WeightsOptions options{.zero = static_cast<int>(draw.from(0, 3))};
  if (draw.one_in(2)) options.overlap = WeightsOptions::Overlap::on;
  options.bucket_bytes = options.unit_bytes = draw.from(0, 2) * 300;
  return options;
}

TEST(Weights, trains_as_one_worker_with_the_joined_batch) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const auto& [name, make] : optimizers())
      for_each_seed(world, 3, [&, &make = make](uint64_t seed) {
        Numbers draw(seed);
        Sequential module = mixed_net(world.rank() * 100), single = mixed_net(0);
        Weights weights(*module, world, drawn_options(draw));
        const auto optimizer = make(weights.parts()), reference = make(trained(*single));
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
            found =
                weights.backward(mean_square(module->forward(mine)), mine.size(0), {.last = i + 1 == micro_batches});
          }
          reference->zero_grad();
          if (total > 0) {
            const at::Tensor loss = mean_square(single->forward(all.narrow(0, 0, total)));
            loss.backward();
            expected = loss.item<double>();
          }
          EXPECT_NEAR(found, expected, 1e-9);
          const double norm = clip_as_one_worker(trained(*single), kClip);
          EXPECT_NEAR(weights.step(*optimizer, kClip).norm, norm, 1e-9);
          reference->step();
          expect_same_weights(weights, single);
        }
      });
  });
}

/// A network, its weights on the ranks of a group, and an optimizer of them.
struct Training {
  Training(int64_t seed, const Communicator& world, int zero, const MakeOptimizer& make)
      : module(mixed_net(seed)), weights(*module, world, {.zero = zero}), optimizer(make(weights.parts())) {}

  /// On this rank's share of the same batch in every world.
  void step(int64_t number) {
    const Communicator& world = weights.grid().world();
    const Range mine = Split::balanced(9, world.size(), 0).ranges(world.rank())[0];
    const at::Tensor x = drawn({9, 5}, number).narrow(0, mine.begin, mine.size());
    weights.backward(mean_square(module->forward(x)), mine.size());
    weights.step(*optimizer, kClip);
  }
  nn::State whole() const { return nn::gather_state(weights.parameters()); }

  Sequential module;
  Weights weights;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

TEST(Weights, go_on_with_weights_and_moments_in_another_stage_on_fewer_ranks) {
  for_each_world({2, 4}, [](const Communicator& world) {
    int zero = 0;
    for (const auto& [name, make] : optimizers()) {
      Training net(0, world, zero++ % 4, make);
      for (int64_t step = 0; step < 2; ++step) net.step(step);
      const nn::State weights = net.whole();
      const nn::State moments = nn::gather_state(state_of(*net.optimizer, net.weights.trained()));
      for (int64_t step = 2; step < 4; ++step) net.step(step);
      const nn::State expected = net.whole();
      for (int fewer = world.size() / 2; fewer > 0; fewer /= 2) {
        const auto group = world.split(world.rank() < fewer ? 0 : 1, world.rank());
        if (world.rank() >= fewer) continue;
        Training other(7, *group, zero % 4, make);
        nn::scatter_state(weights, other.weights.parameters());
        nn::scatter_state(moments, state_of(*other.optimizer, other.weights.trained()));
        for (int64_t step = 2; step < 4; ++step) other.step(step);
        for (const auto& [key, tensor] : other.whole())
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

TEST(Weights, makes_buffers_means_by_samples_or_those_of_the_first_rank_with_any) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    Sequential module(Sums(), torch::nn::Linear(3, 2));
    Weights weights(*module, world, {.zero = 3});
    EXPECT_EQ(weights.parameters()[0].name, "0.sum");
    const bool skips = world.size() > 1;  // so that the first rank has no sample, the others two, three, and so on
    const auto samples_of = [&](int rank) { return skips && rank == 0 ? 0 : rank + 1; };
    at::Tensor expected = at::zeros({3});
    int64_t samples = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      samples += samples_of(rank);
      if (samples_of(rank) > 0) expected += samples_of(rank) * at::full({3}, rank, at::kFloat);
    }
    const int64_t mine = samples_of(world.rank());
    weights.backward(mean_square(module->forward(at::full({mine, 3}, world.rank(), at::kFloat))), mine);
    EXPECT_TRUE(at::allclose(module->buffers()[0], expected / samples));
    EXPECT_EQ(module->buffers()[1].item<int64_t>(), skips ? 2 : 1);
  });
}

TEST(Weights, leave_all_as_it_was_where_no_rank_has_samples_or_one_has_a_nan) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (int zero = 0; zero <= 3; ++zero) {
      Training net(3, world, zero, made_with<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9)));
      net.step(0);
      const nn::State before = net.whole();
      EXPECT_EQ(net.weights.backward(mean_square(net.module->forward(at::zeros({0, 5}, at::kDouble))), 0), 0);
      for (const at::Tensor& part : net.weights.parts()) EXPECT_FALSE(part.grad().defined());
      net.weights.step(*net.optimizer);
      const double value = world.rank() + 1 == world.size() ? std::numeric_limits<double>::quiet_NaN() : 1;
      net.weights.backward(mean_square(net.module->forward(at::full({2, 5}, value, at::kDouble))), 2);
      EXPECT_TRUE(net.weights.step(*net.optimizer).skipped);
      for (const auto& [name, tensor] : net.whole()) EXPECT_TRUE(tensor.equal(before.at(name))) << name;
    }
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
TEST(Weights, train_children_that_view_weights_or_come_to_them_in_another_order_without_samples) {
  using namespace torch::nn;
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto made = [] {
      Sequential net = filled(Sequential(LearnedRows(), Linear(5, 3), BatchNorm1d(3)), 1);
      net->eval();
      return net;
    };
    Sequential single = made(), module = made();
    Weights weights(*module, world, {.zero = 3, .unit_bytes = 0});
    torch::optim::SGD optimizer(weights.parts(), 0.1), reference(single->parameters(), 0.1);
    const int64_t others = world.size() == 1 ? 1 : world.size() - 1;
    const int64_t mine = world.size() > 1 && world.rank() == 0 ? 0 : 4;
    for (int step = 0; step < 2; ++step) {
      weights.backward(mean_square(module->forward(at::ones({mine, 5}, at::kDouble))), mine);
      weights.step(optimizer);
      reference.zero_grad();
      mean_square(single->forward(at::ones({4 * others, 5}, at::kDouble))).backward();
      reference.step();
      expect_same_weights(weights, single);
    }
  });
}

TEST(Weights, have_moments_by_the_options_of_each_group) {
  using namespace torch::optim;
  for_each_world({1, 2}, [](const Communicator& world) {
    Sequential module = mixed_net(1);
    const Weights weights(*module, world, {.zero = 3});
    const SGDOptions with_momentum = SGDOptions(0.1).momentum(0.9);
    SGD optimizer({OptimizerParamGroup(weights.parts(), std::make_unique<SGDOptions>(with_momentum))}, SGDOptions(0.1));
    EXPECT_EQ(state_of(optimizer, weights.parameters()).size(), weights.parts().size());
    SGD dampened(weights.parts(), SGDOptions(with_momentum).dampening(0.5));
    EXPECT_EQ(
        thrown_by<InvalidArgument>([&] { state_of(dampened, weights.trained()); }),
        "the moments of SGD: expected no dampening, because with it SGD's first step differs from all later ones, and "
        "a moment of zeros in a checkpoint does not show whether that step was taken");
  });
}

TEST(Weights, end_loops_of_unequal_length_together) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    Training net(3, world, /*zero=*/3, made_with<torch::optim::SGD>(torch::optim::SGDOptions(0.1)));
    int steps = 0;
    for (; net.weights.any(steps <= world.rank()); ++steps) {
      const bool has_batch = steps <= world.rank();
      net.weights.backward(has_batch ? mean_square(net.module->forward(at::ones({1, 5}, at::kDouble))) : at::Tensor(),
                           has_batch ? 1 : 0);
      net.weights.step(*net.optimizer);
    }
    EXPECT_EQ(steps, world.size());
  });
}

/// That all ranks refuse it with a message that has `expected` in it.
template <class Exception = InvalidArgument, class Function>
void expect_message(Function function, const std::string& expected) {
  const std::string message = thrown_by<Exception>(function);
  EXPECT_NE(message.find(expected), std::string::npos) << message << "; expected " << expected;
}

TEST(Weights, refuse_what_does_not_work_on_shards) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    Sequential module = mixed_net(1);
    Weights weights(*module, world, {.zero = 3});
    const auto loss = [&] { return mean_square(module->forward(at::ones({2, 5}, at::kDouble))); };
    torch::optim::LBFGS lbfgs(weights.parts());
    expect_message([&] { weights.step(lbfgs); },
                   "step: expected an optimizer that works element by element, got LBFGS, which needs whole");
    torch::optim::SGD others(module->parameters(), 0.1), optimizer(weights.parts(), 0.1);
    expect_message([&] { weights.step(others); }, "expected an optimizer of parts(), got one of other tensors");
    expect_message([&] { loss().backward(); }, "call Weights::backward(mean_loss, samples) instead of the loss's own");
    expect_message([&] { weights.backward(at::ones({2}).requires_grad_(), 1); }, "a single number, got [2]");
    expect_message([&] { weights.backward({}, 1); }, "an undefined tensor");
    expect_message([&] { weights.backward(loss(), -1); }, "0 samples or more, got -1");
    weights.backward(loss(), 2, {.last = false});
    expect_message([&] { weights.step(optimizer); }, "expected a backward with last = true");
    weights.backward(loss(), 2);
    weights.step(optimizer);
    expect_message([&] { Weights(*module, world); }, "the gradients of '0.weight' are already summed by another");
    module->parameters()[2].requires_grad_();
    expect_message([&] { weights.backward(loss(), 2); }, "'3.weight' did not require gradients");
    module->parameters()[2].requires_grad_(false);
    const at::NoGradGuard no_gradient;
    const at::Tensor norm = module->parameters()[6];
    expect_message([&] { norm.mul_(2); }, "'5.weight' is sharded over the ranks, so aten::mul_ cannot change it");
    expect_message([&] { at::Tensor(norm).set_data(at::ones({7}, at::kDouble)); }, "so set_data cannot change it");
    if (TORCH_VERSION_MINOR > 11)  // LibTorch 2.11 cannot say it
      expect_message<c10::Error>([&] { norm.const_data_ptr(); },
                                 "has values only while an operation of LibTorch reads");
    weights.use(norm);
    EXPECT_EQ(norm.const_data_ptr<double>()[0], norm[0].item<double>());
    weights.while_whole([&] { norm.fill_(3); });
    EXPECT_TRUE(norm.equal(at::full({7}, 3, at::kDouble)));
  });
}

TEST(Weights, refuse_modules_that_were_changed) {
  for_each_world({1, 2}, [](const Communicator& world) {
    using torch::nn::Linear;
    for (int zero = 0; zero <= 3; ++zero) {
      Linear replaced(2, 3), converted(2, 3), hooked(2, 3);
      Weights of_replaced(*replaced, world, {.zero = zero}), of_converted(*converted, world, {.zero = zero}),
          of_hooked(*hooked, world, {.zero = zero});
      const auto backward = [&](Weights& weights, Linear& module) {
        return [&] { weights.backward(module(at::ones({1, 2}, module->bias.scalar_type())).sum(), 1); };
      };
      if (zero < 3) {
        replaced->weight.set_data(at::ones({5, 2}));
        replaced->bias.set_data(at::ones({5}));
        expect_message(backward(of_replaced, replaced), "'weight' has another size or type than when Weights was made");
        if (zero == 0) continue;
        converted->weight.set_data(at::ones({3, 2}));
        expect_message(backward(of_converted, converted), "'weight' has other memory than when Weights was made");
        torch::optim::SGD optimizer(of_hooked.parts(), 0.1);
        backward(of_hooked, hooked)();
        expect_message([&] { optimizer.step(); }, "would change on this rank alone: call Weights::step(optimizer)");
      }
    }
    Linear one(4, 4), other(4, 4);
    other->weight.set_data(one->weight.detach().t());
    Sequential both(one, other);
    expect_message([&] { Weights(*both, world); }, "different tensors in one memory");
    expect_message([&] { Weights(*one, world, {.zero = 4}); }, "expected zero from 0 to 3, got 4");
    torch::nn::Embedding words(torch::nn::EmbeddingOptions(5, 2).sparse(true));
    Weights of_words(*words, world, {.zero = 3});
    expect_message([&] { of_words.backward(words(at::ones({1}, at::kLong)).sum(), 1); }, "'weight' is sparse");
  });
}

}  // namespace
}  // namespace adjoin::parallel
