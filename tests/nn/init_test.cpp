#include "adjoin/nn/init.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "adjoin/base/error.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

Parameter parameter_on(const Layout& layout, const Grid& grid, at::ScalarType type = at::kDouble) {
  return {"net.weight", at::zeros(layout.shape_on(grid.world().rank()), type), layout, grid, {}, false};
}

/// The values that `fill` gives a whole parameter.
at::Tensor filled(const std::vector<int64_t>& shape, const std::function<void(const Parameter&)>& fill) {
  const Grid alone(Communicator(), {{"one", 1}});
  const Parameter parameter = parameter_on(Layout(alone.shape(), shape), alone);
  fill(parameter);
  return parameter.tensor;
}

TEST(Init, gives_the_same_global_weights_in_every_layout) {
  const std::vector<std::function<void(const Parameter&)>> ways{
      [](const Parameter& p) { init::uniform_(p, 3, -1, 2); }, [](const Parameter& p) { init::normal_(p, 3, 1, 2); },
      [](const Parameter& p) { init::trunc_normal_(p, 3); },   [](const Parameter& p) { init::xavier_uniform_(p, 3); },
      [](const Parameter& p) { init::xavier_normal_(p, 3); },  [](const Parameter& p) { init::kaiming_uniform_(p, 3); },
      [](const Parameter& p) { init::kaiming_normal_(p, 3); }, [](const Parameter& p) { init::orthogonal_(p, 3); }};
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for_each_seed(world, 15, [&](uint64_t seed) {
      Numbers draw(seed);
      const Grid grid(world, {{"all", world.size()}});
      const std::vector<int64_t> shape{draw.from(1, 9), draw.from(1, 9), draw.from(1, 3)};
      const Layout layout = random_layout(draw.seed(), random_grid(draw.seed(), world.size()), shape, Kind::copied);
      for (const auto& way : ways) {
        const Parameter p = parameter_on(layout, grid);
        way(p);
        EXPECT_TRUE(whole({p.tensor, p.layout, p.grid}).equal(filled(shape, way)));
      }
    });
  });
}

// Bounds on what is drawn are five standard errors: of a deviation s of n numbers s / sqrt(2 n) where they are normal.
TEST(Init, draws_with_the_deviations_of_torch) {
  const std::vector<int64_t> shape{40, 30, 3, 5};  // fan in 450, fan out 600; 18,000 numbers
  const auto deviation = [&](const std::function<void(const Parameter&)>& fill) {
    return filled(shape, fill).std().item<double>();
  };
  const double share = 5 / std::sqrt(2.0 * 18000);
  const double xavier = std::sqrt(2.0 / 1050), kaiming = std::sqrt(2.0 / 450), outputs = std::sqrt(2.0 / 600);
  EXPECT_NEAR(deviation([](const Parameter& p) { init::xavier_uniform_(p, 1); }), xavier, xavier * share);
  EXPECT_NEAR(deviation([](const Parameter& p) { init::xavier_normal_(p, 1, 3); }), 3 * xavier, 3 * xavier * share);
  EXPECT_NEAR(deviation([](const Parameter& p) { init::kaiming_uniform_(p, 1); }), kaiming, kaiming * share);
  EXPECT_NEAR(deviation([](const Parameter& p) { init::kaiming_normal_(p, 1, 0, torch::kFanOut, torch::kReLU); }),
              outputs, outputs * share);
}

TEST(Init, draws_uniform_numbers_between_its_ends) {
  const at::Tensor u = filled({100000}, [](const Parameter& p) { init::uniform_(p, 1, 2, 5); });
  EXPECT_GE(u.min().item<double>(), 2);
  EXPECT_LT(u.max().item<double>(), 5);
  const double width = 3 / std::sqrt(12.0);  // the deviation of uniform numbers
  EXPECT_NEAR(u.mean().item<double>(), 3.5, 5 * width / std::sqrt(100000.0));
  EXPECT_NEAR(u.std().item<double>(), width, 5 * width / std::sqrt(2 * 100000.0));
}

TEST(Init, cuts_normal_numbers_without_heaping_them_at_the_ends) {
  const at::Tensor t = filled({100000}, [](const Parameter& p) { init::trunc_normal_(p, 1, 1, 2, -1, 2); });
  EXPECT_GE(t.min().item<double>(), -1);
  EXPECT_LE(t.max().item<double>(), 2);
  EXPECT_LE((t <= -1).logical_or(t >= 2).sum().item<int64_t>(), 2);
  // Of normal numbers of mean 1 and deviation 2 between -1 and 2, those up to 1: (F(0) - F(-1)) / (F(1/2) - F(-1)),
  // F being the standard distribution; with five standard errors of a fraction.
  const auto f = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const double share = (f(0) - f(-1)) / (f(0.5) - f(-1));
  EXPECT_NEAR((t <= 1).to(at::kDouble).mean().item<double>(), share, 5 * std::sqrt(share * (1 - share) / 100000));
}

TEST(Init, makes_rows_or_columns_orthonormal) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{60, 60}, {17, 90}, {90, 17}, {5, 3, 2, 2}, {1, 4}, {4, 1}}) {
    const at::Tensor q = filled(shape, [](const Parameter& p) { init::orthogonal_(p, 7); }).flatten(1);
    const at::Tensor product = q.size(0) <= q.size(1) ? q.mm(q.t()) : q.t().mm(q);
    EXPECT_LE((product - at::eye(product.size(0), at::kDouble)).abs().max().item<double>(), 1e-12);
    const at::Tensor twice = filled(shape, [](const Parameter& p) { init::orthogonal_(p, 7, 2); }).flatten(1);
    EXPECT_TRUE(twice.equal(2 * q));
  }
}

TEST(Init, stays_orthonormal_where_vectors_are_many) {
  const at::Tensor q = filled({200, 200}, [](const Parameter& p) { init::orthogonal_(p, 1); });
  EXPECT_LE((q.t().mm(q) - at::eye(200, at::kDouble)).norm().item<double>(), 1e-12);
}

TEST(Init, follows_seed_and_name_and_leaves_the_gradient_alone) {
  const Grid alone(Communicator(), {{"one", 1}});
  Parameter p = parameter_on(Layout(alone.shape(), {20}), alone), other = p;
  p.tensor.requires_grad_(true);
  init::uniform_(p, 1);
  EXPECT_TRUE(p.tensor.requires_grad() && p.tensor.is_leaf());
  const at::Tensor first = p.tensor.detach().clone();
  init::uniform_(p, 2);
  EXPECT_FALSE(p.tensor.equal(first));
  other.name = "another";
  other.tensor = at::zeros({20}, at::kDouble);
  init::uniform_(other, 1);
  EXPECT_FALSE(other.tensor.equal(first));
}

TEST(Init, refuses_what_has_no_fans_or_is_not_of_floats) {
  const Grid alone(Communicator(), {{"one", 1}});
  const Layout line(alone.shape(), {3});
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { init::xavier_normal_(parameter_on(line, alone), 1); }),
            "xavier_normal_: expected at least 2 dims, parameter 'net.weight' is " + line.to_string());
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { init::orthogonal_(parameter_on(line, alone), 1); }),
            "orthogonal_: expected at least 2 dims, parameter 'net.weight' is " + line.to_string());
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { init::uniform_(parameter_on(line, alone, at::kLong), 1); }),
            "uniform_: parameter 'net.weight' is of Long, expected floats");
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { init::trunc_normal_(parameter_on(line, alone), 1, 0, 1, 2, 2); }),
            "trunc_normal_: expected low < high and a deviation above 0, got 2.000000, 2.000000 and 1.000000");
}

}  // namespace
}  // namespace adjoin::nn
