#include "adjoin/nn/dropout.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <tuple>
#include <utility>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

const ForwardPass kTraining{{.seed = 5, .number = 3, .training = true}};
const DropoutPlace kPlace{"layer", 0};

/// Of samples of `tokens` tokens each, as [samples, tokens, features].
at::Tensor mask(at::IntArrayRef shape, ForwardPass pass, const DropoutPlace& place = kPlace) {
  const std::vector<int64_t> lengths(static_cast<size_t>(shape[0]), shape[1]);
  pass.rows = LocalTokenRows(TokenRows::balanced(lengths, 1));
  return dropout(at::ones({shape[0] * shape[1], shape[2]}, at::kDouble), 0.25, place, pass).view(shape);
}

TEST(Dropout, keeps_what_it_should_and_scales_so_that_the_mean_stays) {
  const at::Tensor y = mask({50, 40, 100}, kTraining);
  const at::Tensor kept = y != 0;
  EXPECT_TRUE(y.masked_select(kept).eq(1 / 0.75).all().item<bool>());
  // Five standard errors of a fraction of 200,000 draws: 5 sqrt(0.25 * 0.75 / 200000) = 0.0048.
  EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 0.75, 0.0049);
}

TEST(Dropout, does_nothing_outside_training_or_at_probability_zero) {
  const at::Tensor x = at::ones({2, 3, 4});
  EXPECT_TRUE(dropout(x, 0.5, kPlace, {}).is_same(x));
  EXPECT_TRUE(dropout(x, 0, kPlace, kTraining).is_same(x));
}

TEST(Dropout, draws_the_rows_of_any_worker_as_it_draws_those_of_the_whole) {
  const at::Tensor whole = mask({4, 5, 30}, kTraining);
  ForwardPass here = kTraining;
  here.step.first_sample = 1;
  here.rows = LocalTokenRows(
      TokenRows::of_runs({{{0, {0, 5}}, {1, {0, 1}}}, {{2, {3, 5}}, {1, {1, 5}}, {2, {0, 3}}}}, {5, 5, 5}), 1);
  const at::Tensor rows = at::cat({whole[3].slice(0, 3), whole[2].slice(0, 1), whole[3].slice(0, 0, 3)});
  EXPECT_TRUE(dropout(at::ones({9, 13}, at::kDouble), 0.25, {"layer", 11}, here).equal(rows.slice(1, 11, 24)));
}

TEST(Dropout, takes_rows_for_samples_where_a_pass_has_none) {
  EXPECT_TRUE(
      dropout(at::ones({4, 30}, at::kDouble), 0.25, kPlace, kTraining).equal(mask({4, 1, 30}, kTraining).squeeze(1)));
}

TEST(Dropout, draws_other_masks_for_another_step_seed_or_layer) {
  ForwardPass step = kTraining, seed = kTraining;
  step.step.number += 1;
  seed.step.seed += 1;
  const at::Tensor first = mask({4, 5, 30}, kTraining);
  for (const at::Tensor& other :
       {mask({4, 5, 30}, step), mask({4, 5, 30}, seed), mask({4, 5, 30}, kTraining, {"other", 0})})
    EXPECT_FALSE(first.equal(other));
}

TEST(Dropout, is_its_own_adjoint_to_any_order) {
  const Communicator alone;
  expect_adjoint([](const at::Tensor& x) { return dropout(x, 0.4, kPlace, kTraining); }, Kind::replicated,
                 Kind::replicated, {12, 10}, alone);
}

TEST(AddDropped, adds_what_dropout_keeps_and_sends_each_its_gradient) {
  for (const auto& [of_base, of_x] : {std::pair(at::kDouble, at::kDouble), std::pair(at::kFloat, at::kBFloat16),
                                      std::pair(at::kFloat, at::kHalf), std::pair(at::kBFloat16, at::kFloat)}) {
    const auto grid = [](int64_t first) { return at::arange(first, first + 120, at::kDouble).view({12, 10}) / 16; };
    const at::Tensor base = grid(-70).to(of_base).requires_grad_(), x = grid(3).to(of_x).requires_grad_();
    const at::Tensor y = add_dropped(base, x, 0.5, kPlace, kTraining);
    EXPECT_EQ(y.scalar_type(), of_base);
    const at::Tensor mask = dropout(at::ones({12, 10}, at::kDouble), 0.5, kPlace, kTraining);  // of zeros and twos
    const at::Tensor expected = base.detach().to(at::kDouble) + x.detach().to(at::kDouble) * mask;
    EXPECT_TRUE(y.detach().equal(expected.to(of_base)));
    const at::Tensor gradient = grid(-9).to(of_base);
    y.backward(gradient);
    EXPECT_TRUE(base.grad().equal(gradient));
    EXPECT_EQ(x.grad().scalar_type(), of_x);
    EXPECT_TRUE(x.grad().equal((gradient.to(at::kDouble) * mask).to(of_x)));
  }
}

TEST(AddDropped, adds_all_outside_training_and_refuses_other_shapes) {
  const at::Tensor x = at::ones({3, 4});
  EXPECT_TRUE(add_dropped(x, x, 0.5, kPlace, {}).equal(2 * x));
  EXPECT_THROW(add_dropped(x, at::ones({3, 1}), 0.5, kPlace, kTraining), InvalidArgument);
}

TEST(AddDropped, is_differentiable_twice) {
  const at::Tensor base = at::ones({6, 4}, at::kDouble).requires_grad_(),
                   x = at::ones({6, 4}, at::kDouble).requires_grad_();
  const at::Tensor y = add_dropped(base, x * x, 0.5, kPlace, kTraining);
  const at::Tensor first = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  const at::Tensor second = torch::autograd::grad({first.sum()}, {x})[0];
  const at::Tensor mask = dropout(at::ones({6, 4}, at::kDouble), 0.5, kPlace, kTraining);
  EXPECT_TRUE(second.equal(2 * mask));
}

TEST(AttentionDropout, draws_each_row_by_its_global_place) {
  const auto word = [](const ScoresPlace& place, int64_t r) {
    const MaskRow w = attention_words("a", 3, place, kTraining.step)(r);
    return std::tuple(w.key, w.first_column, w.row, w.plane, w.volume);
  };
  // Query 6 of head 2: of the heads from 0 on, and from 1 on.
  EXPECT_EQ(word({.sample = 4, .queries = {5, 9}, .first_key = 2}, 2 * 4 + 1),
            word({.sample = 4, .queries = {6, 8}, .first_key = 2, .first_head = 1}, 1 * 2));
  EXPECT_NE(word({.sample = 4, .queries = {5, 9}}, 0), word({.sample = 5, .queries = {5, 9}}, 0));
}

TEST(Dropout, refuses_other_probabilities_dims_and_rows) {
  EXPECT_THROW(dropout(at::ones({1, 1}), 1.0, kPlace, kTraining), InvalidArgument);
  EXPECT_THROW(dropout(at::ones({1, 1}), -0.1, kPlace, kTraining), InvalidArgument);
  EXPECT_THROW(dropout(at::ones({1}), 0.1, kPlace, kTraining), InvalidArgument);
  const ForwardPass other{kTraining.step, LocalTokenRows(TokenRows::balanced({3}, 1))};
  EXPECT_THROW(dropout(at::ones({2, 1}), 0.1, kPlace, other), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::nn
