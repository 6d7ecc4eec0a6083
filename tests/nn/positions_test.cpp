#include "adjoin/nn/positions.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

// Pair i of size / 2 is a complex number, turned by token * base^(-2i / size).
TEST(Rotary, turns_each_pair_by_its_token) {
  const at::Tensor x = random_tensor({3, 2, 6}, Kind::replicated, Communicator());
  const std::vector<int64_t> tokens{0, 1, 70000};
  const at::Tensor y = rotary(x, at::tensor(tokens, at::kLong), RotaryOptions{.base = 100});
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t i = 0; i < 3; ++i) {
        const double a = x[row][head][i].item<double>(), b = x[row][head][i + 3].item<double>();
        const double angle = static_cast<double>(tokens[static_cast<size_t>(row)]) * std::pow(100, -2.0 * i / 6);
        EXPECT_NEAR(y[row][head][i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-10);
        EXPECT_NEAR(y[row][head][i + 3].item<double>(), a * std::sin(angle) + b * std::cos(angle), 1e-10);
      }
}

TEST(Rotary, knows_angles_of_late_tokens_in_float64_whatever_is_turned) {
  const int64_t token = 1'234'567;
  const at::Tensor x = at::tensor({1.0f, 1.0f, 0.0f, 0.0f}).view({1, 1, 4});
  const at::Tensor y = rotary(x, at::tensor({token}, at::kLong), RotaryOptions{.base = 10000});
  const double angle = static_cast<double>(token) * std::pow(10000, -0.5);
  EXPECT_NEAR(y[0][0][1].item<double>(), std::cos(angle), 1e-6);
  EXPECT_NEAR(y[0][0][3].item<double>(), std::sin(angle), 1e-6);
}

TEST(Rotary, makes_products_depend_on_distances_alone) {
  const at::Tensor x = random_tensor({2, 1, 8}, Kind::replicated, Communicator());
  const auto product = [&](int64_t query, int64_t key) {
    const at::Tensor y = rotary(x, at::tensor({query, key}, at::kLong), RotaryOptions{.base = 10000});
    return (y[0] * y[1]).sum().item<double>();
  };
  EXPECT_NEAR(product(12, 5), product(1007, 1000), 1e-10);
  EXPECT_GT(std::abs(product(12, 5) - product(12, 6)), 1e-3);
}

TEST(Rotary, keeps_the_type) {
  const at::Tensor x = at::ones({2, 1, 4});
  const at::Tensor tokens = at::tensor({3, 4}, at::kLong), expected = rotary(x, tokens, RotaryOptions{.base = 10});
  EXPECT_EQ(expected.scalar_type(), at::kFloat);
  const at::Tensor y = rotary(x.to(at::kBFloat16), tokens, RotaryOptions{.base = 10});
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(y, expected.to(at::kBFloat16)));
}

TEST(TokenNumbers, are_those_of_the_rows_that_are_here) {
  const LocalTokenRows rows(TokenRows::of_runs({{{0, {0, 2}}}, {{1, {0, 2}}, {0, {2, 3}}}}, {3, 2}), 1);
  EXPECT_TRUE(at::equal(token_numbers(rows, 3), at::tensor({0, 1, 2}, at::kLong)));
  EXPECT_THROW(token_numbers(rows, 2), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::nn
