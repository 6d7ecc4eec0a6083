#include "tests/support/adjoint.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cmath>

namespace adjoin::testing {

at::Tensor random_tensor(at::IntArrayRef shape, Kind kind, const Communicator& world, int64_t seed) {
  const int64_t stream = kind == Kind::replicated ? 0 : world.rank() + 1;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(1000 * seed + stream));
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble));
}

double inner_product(const at::Tensor& a, const at::Tensor& b, Kind kind, const Communicator& world) {
  std::array<double, 1> sum{(a.detach() * b.detach()).sum().item<double>()};
  if (kind != Kind::replicated) world.all_reduce(buffer(sum));
  return sum[0];
}

void expect_adjoint(const Movement& movement, Kind from, Kind to, at::IntArrayRef shape, const Communicator& world) {
  const at::Tensor x = random_tensor(shape, from, world, 1).requires_grad_(true);
  const at::Tensor fx = movement(x);
  ASSERT_TRUE(fx.requires_grad());
  const at::Tensor y = random_tensor(fx.sizes(), to, world, 2).requires_grad_(true);
  const at::Tensor fy = torch::autograd::grad({fx}, {x}, {y}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  ASSERT_EQ(fy.sizes(), x.sizes());

  const auto norm = [&](const at::Tensor& t, Kind kind) { return std::sqrt(inner_product(t, t, kind, world)); };
  const double scale = std::max(norm(fx, to) * norm(y, to), norm(x, from) * norm(fy, from));
  EXPECT_NEAR(inner_product(fx, y, to, world), inner_product(x, fy, from, world), 1e-12 * scale);

  const at::Tensor z = random_tensor(shape, from, world, 3);
  const at::Tensor twice = torch::autograd::grad({fy}, {y}, {z})[0];
  EXPECT_TRUE(at::allclose(twice, movement(z).detach(), 1e-12, 1e-12)) << "the adjoint of the adjoint is another map";
}

}  // namespace adjoin::testing
