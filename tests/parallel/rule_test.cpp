#include "adjoin/parallel/optimizer.hpp"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/failures.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

TEST(Rule, of_sgd_remembers_only_what_it_uses) {
  EXPECT_EQ(sgd().moments, std::vector<std::string>());
  EXPECT_EQ(sgd({.momentum = 0.9}).moments, std::vector<std::string>{"momentum"});
}

TEST(Rule, of_sgd_moves_by_hand_computed_steps) {
  const FlatPiece piece{at::ones({1}, at::kDouble), at::ones({1}, at::kDouble), {at::zeros({1}, at::kDouble)}};
  const Rule rule = sgd({.momentum = 0.5});
  rule.update(piece, {.number = 1, .rate = 0.1, .decay = 1});  // gradient 1 + 1, momentum 2
  EXPECT_DOUBLE_EQ(piece.value.item<double>(), 1 - 0.2);
  piece.gradient.fill_(1);
  rule.update(piece, {.number = 2, .rate = 0.1, .decay = 0});  // momentum 0.5 * 2 + 1
  EXPECT_DOUBLE_EQ(piece.moments[0].item<double>(), 2);
  EXPECT_DOUBLE_EQ(piece.value.item<double>(), 0.8 - 0.2);
}

TEST(Rule, of_sgd_refuses_a_momentum_that_means_nothing) {
  EXPECT_EQ(thrown_by<InvalidArgument>([] { sgd({.momentum = 1}); }),
            "sgd: expected a momentum in [0, 1), got 1.000000");
  EXPECT_EQ(thrown_by<InvalidArgument>([] { sgd({.nesterov = true}); }),
            "sgd: Nesterov's momentum expects a momentum above 0");
}

}  // namespace
}  // namespace adjoin::parallel
