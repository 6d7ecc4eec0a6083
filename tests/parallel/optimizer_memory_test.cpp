// An optimizer of complex parameters, and of gradients in any memory.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/partition/split.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/hosts_backend.hpp"
#include "tests/support/odd_memory.hpp"
#include "tests/support/torchs_optimizers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

/// A complex matrix, a complex number and a real vector; or the same in reals.
struct Spectral : torch::nn::Module {
  explicit Spectral(bool in_reals) {
    const at::Tensor w = at::view_as_complex(random_tensor({5, 3, 2}, Kind::replicated, Communicator(), 1));
    const at::Tensor b = at::full({}, c10::complex<double>(0.5, -2), at::kComplexDouble);
    const auto form = [&](const at::Tensor& z) { return in_reals ? at::view_as_real(z).clone() : z.clone(); };
    weight = register_parameter("weight", form(w));
    bias = register_parameter("bias", form(b));
    scale = register_parameter("scale", at::ones({3}, at::kDouble));
  }
  at::Tensor loss(const at::Tensor& x) const {
    const auto number = [](const at::Tensor& z) { return z.is_complex() ? z : at::view_as_complex(z); };
    const at::Tensor y = at::matmul(x.to(at::kComplexDouble), number(weight)) + number(bias);
    return at::real(y * y.conj()).sum() + (at::imag(y.conj()).sum(0) * scale).sum();
  }
  at::Tensor weight, bias, scale;
};

template <class Reference, class Options>
void expect_complex_as_torchs(const Rule& rule, Options of_all) {
  for_each_world({1, 2, 3}, [&](const Communicator& world) {
    for (const bool in_backward : {false, true}) {
      const Grid grid(world, {{"dp", world.size()}});
      Spectral module(false), single(true);
      OptimizerOptions own{.weight_decay = 0.1, .clip = 0.5};
      if (in_backward) own.zero = 2;
      Optimizer optimizer(nn::parameters_of(module, grid), rule, own);
      auto reference = torchs_optimizer<Reference>(single, of_all.weight_decay(0.1));
      for (int64_t step = 0; step < 3; ++step) {
        const at::Tensor x = random_tensor({7, 5}, Kind::replicated, Communicator(), step);
        const Range mine = Split::balanced(7, world.size(), 0).ranges(world.rank())[0];
        module.loss(x.narrow(0, mine.begin, mine.size())).backward();
        const double norm = optimizer.step(0.01).norm;
        single.loss(x).backward();
        EXPECT_NEAR(norm, clip(single, 0.5), 1e-12 * norm);
        reference.step();
        reference.zero_grad();
      }
      EXPECT_TRUE(at::allclose(at::view_as_real(module.weight), single.weight, 1e-10, 1e-12));
      EXPECT_TRUE(at::allclose(at::view_as_real(module.bias), single.bias, 1e-10, 1e-12));
      EXPECT_TRUE(at::allclose(module.scale, single.scale, 1e-10, 1e-12));
      for (const auto& [name, moment] : nn::gather_state(optimizer.moments())) {
        EXPECT_EQ(moment.is_complex(), !name.ends_with("scale")) << name;
        EXPECT_EQ(moment.dim(), name.ends_with("weight") ? 2 : name.ends_with("bias") ? 0 : 1) << name;
      }
    }
  });
}

TEST(Optimizer, updates_complex_parameters_as_torchs_does_their_reals) {
  expect_complex_as_torchs<torch::optim::AdamW>(adamw(), torch::optim::AdamWOptions(0.01));
  expect_complex_as_torchs<torch::optim::SGD>(sgd({.momentum = 0.9}), torch::optim::SGDOptions(0.01).momentum(0.9));
}

TEST(Optimizer, takes_a_parameter_whose_memory_is_in_another_order) {
  torch::nn::Linear layer(torch::nn::LinearOptions(300, 301).bias(false));
  layer->weight.set_data(at::ones({300, 301}).t());
  Optimizer optimizer(nn::parameters_of(*layer, Grid(Communicator(), {{"dp", 1}})), adamw());
  layer->weight.mutable_grad() = at::ones_like(layer->weight);
  optimizer.step(0.5);
  EXPECT_TRUE(at::allclose(layer->weight, at::full({301, 300}, 0.5)));
}

TEST(Optimizer, takes_gradients_in_any_memory) {
  for_each_world({1, 2}, [](const Communicator& world) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const Grid grid(world, {{"dp", world.size()}});
      torch::nn::Linear layer(4, 3);
      const at::NoGradGuard no_gradient;
      Numbers odd(seed);
      for (const at::Tensor& p : layer->parameters()) p.fill_(1);
      Optimizer optimizer(nn::parameters_of(*layer, grid), sgd());
      for (const at::Tensor& p : layer->parameters())
        p.mutable_grad() = in_odd_memory(at::full_like(p, 0.5), odd).detach();
      optimizer.step(1);
      for (const at::Tensor& p : layer->parameters()) EXPECT_TRUE(p.equal(at::full_like(p, 1 - 0.5 * world.size())));
    }
  });
}

/// On threads a begun gather is carried out where it is waited for.
TEST(Optimizer, lets_new_weights_arrive_before_an_operation_reads_or_changes_them) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.backend()->spans_hosts()) return;  // there it goes on by itself
    const Grid grid(between_hosts(world), {{"dp", world.size()}});
    torch::nn::Linear layer(300, 301);
    const at::NoGradGuard no_gradient;
    layer->weight.fill_(1);
    layer->bias.fill_(1);
    Optimizer optimizer(nn::parameters_of(*layer, grid), sgd(), {.weights_arrive_later = true});
    const auto of_next = [&] {  // the first element of the next rank's rows
      const int64_t next = (world.rank() + 1) % world.size();
      return layer->weight.const_data_ptr<float>()[300 * Split::balanced(301, world.size(), 0).offset(next)];
    };
    const auto step = [&] {
      for (const at::Tensor& weight : layer->parameters()) weight.mutable_grad() = at::ones_like(weight) / world.size();
      optimizer.step(0.25);
    };
    step();
    EXPECT_EQ(of_next(), 1);
    EXPECT_EQ(layer->weight.sum().item<float>(), 0.75f * 300 * 301);
    step();
    optimizer.settle();
    EXPECT_EQ(of_next(), 0.5);
    step();
    layer->weight.add_(1);
    EXPECT_EQ(of_next(), 1.25);
    step();
    step();  // which waits for those of the step before
    optimizer.settle();
    EXPECT_EQ(of_next(), 0.75);
    EXPECT_TRUE(layer->bias.equal(at::full({301}, -0.25)));
  });
}

}  // namespace
}  // namespace adjoin::parallel
