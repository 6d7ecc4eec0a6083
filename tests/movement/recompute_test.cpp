#include "adjoin/movement/recompute.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/mappings.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/forward_mode.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;
using Tensors = std::vector<at::Tensor>;

at::Tensor numbers(at::IntArrayRef shape, int64_t seed = 0) {
  return random_tensor(shape, Kind::replicated, Communicator(), seed).requires_grad_(true);
}

TEST(Recomputed, gives_inputs_and_weights_the_same_bits) {
  const at::Tensor a = numbers({5, 4}), b = numbers({4, 3}, 1), weight = numbers({5, 3}, 2);
  const auto f = [&](const Tensors& x) { return (x[0].mm(x[1]).tanh() * weight).exp(); };
  const auto gradients = [&](const at::Tensor& y) {
    y.pow(2).sum().backward();
    Tensors found{y.detach(), a.grad().clone(), b.grad().clone(), weight.grad().clone()};
    for (const at::Tensor& x : {a, b, weight}) x.mutable_grad().reset();
    return found;
  };
  const Tensors expected = gradients(f({a, b})), found = gradients(recomputed(f, {a, b}));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
}

TEST(Recomputed, calls_its_function_twice_and_within_another_once_more_alone) {
  int calls = 0;
  const at::Tensor x = numbers({3});
  const auto inner = [&](const Tensors& in) {
    ++calls;
    return in[0].sin();
  };
  recomputed(inner, {x}).sum().backward();
  EXPECT_EQ(calls, 2);
  calls = 0;
  recomputed([&](const Tensors& in) { return recomputed(inner, in).cos(); }, {x}).sum().backward();
  EXPECT_EQ(calls, 2) << "forward, and once in backward";
}

TEST(Recomputed, calls_its_function_once_where_nobody_asks_for_a_gradient) {
  int calls = 0;
  const auto f = [&](const Tensors& in) {
    ++calls;
    return in[0] * 2;
  };
  EXPECT_FALSE(recomputed(f, {numbers({3}).detach()}).requires_grad());
  const at::NoGradGuard no_gradient;
  recomputed(f, {numbers({3})});
  EXPECT_EQ(calls, 2);
}

TEST(Recomputed, has_autocast_as_it_was) {
  const at::Tensor x = random_tensor({4, 4}, Kind::replicated, Communicator()).to(at::kFloat).requires_grad_(true);
  std::vector<at::ScalarType> types;
  const auto f = [&](const Tensors& in) {
    const at::Tensor y = at::mm(in[0], in[0]);
    types.push_back(y.scalar_type());
    return y;
  };
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor y = recomputed(f, {x});
  at::autocast::set_autocast_enabled(at::kCPU, false);
  y.sum().backward();
  EXPECT_EQ(types, (std::vector<at::ScalarType>{at::kBFloat16, at::kBFloat16}));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Recomputed, carries_derivatives_in_forward_mode_of_inputs_and_weights) {
  const ForwardMode mode;
  const at::Tensor x = numbers({3}), weight = numbers({3}, 1), t = numbers({3}, 2).detach(),
                   s = numbers({3}, 3).detach();
  const at::Tensor of_weight = with_tangent(weight, s);
  const auto f = [&](const Tensors& in) { return in[0].sin() * of_weight; };
  const at::Tensor y = recomputed(f, {with_tangent(x, t)});
  EXPECT_TRUE(tangent_of(y).allclose(x.cos() * t * weight + x.sin() * s, 1e-12, 1e-12));
  EXPECT_TRUE(tangent_of(recomputed(f, {x})).allclose(x.sin() * s, 1e-12, 1e-12));
  y.sum().backward();
  EXPECT_TRUE(x.grad().allclose(x.cos() * weight, 1e-12, 1e-12));
}

TEST(Recomputed, communicates_again_in_backward) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const at::Tensor x = numbers({3});
    const auto f = [&](const Tensors& in) { return reduce_from(in[0] * (world.rank() + 1), world).pow(2); };
    recomputed(f, {x}).sum().backward();
    const double sum = world.size() * (world.size() + 1) / 2.0;  // of 1, 2, ...: y = (sum x)^2
    EXPECT_TRUE(at::allclose(x.grad(), 2 * sum * (world.rank() + 1) * x.detach(), 1e-12, 1e-12));
  });
}

TEST(Recomputed, passes_on_what_its_function_throws_and_works_again) {
  bool fails = false;
  const at::Tensor x = numbers({3});
  const auto f = [&](const Tensors& in) {
    if (fails) throw std::runtime_error("no");
    return in[0].exp();
  };
  const at::Tensor y = recomputed(f, {x}).sum();
  fails = true;
  EXPECT_THROW(y.backward({}, /*keep_graph=*/true), std::runtime_error);
  fails = false;
  y.backward();
  EXPECT_TRUE(at::equal(x.grad(), x.exp()));
}

}  // namespace
}  // namespace adjoin
