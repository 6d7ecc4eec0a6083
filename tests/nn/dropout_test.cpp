#include "adjoin/nn/dropout.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

const StepContext kTraining{.seed = 5, .step = 3, .training = true};
const DropoutPlace kPlace{"layer", 0};

at::Tensor mask(at::IntArrayRef shape, const StepContext& context, const DropoutPlace& place = kPlace) {
  return dropout(at::ones(shape, at::kDouble), 0.25, place, context);
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

TEST(Dropout, draws_a_piece_as_it_draws_that_piece_of_the_whole) {
  const at::Tensor whole = mask({4, 5, 30}, kTraining);
  StepContext here = kTraining;
  here.first_sample = 1;
  here.first_token = 2;
  EXPECT_TRUE(mask({3, 3, 13}, here, {"layer", 11}).equal(whole.slice(0, 1).slice(1, 2).slice(2, 11, 24)));
}

TEST(Dropout, does_not_depend_on_the_padded_length) {
  EXPECT_TRUE(mask({2, 9, 8}, kTraining).slice(1, 0, 5).equal(mask({2, 5, 8}, kTraining)));
}

TEST(Dropout, draws_other_masks_for_another_step_seed_or_layer) {
  StepContext step = kTraining, seed = kTraining;
  step.step += 1;
  seed.seed += 1;
  const at::Tensor first = mask({4, 5, 30}, kTraining);
  for (const at::Tensor& other :
       {mask({4, 5, 30}, step), mask({4, 5, 30}, seed), mask({4, 5, 30}, kTraining, {"other", 0})})
    EXPECT_FALSE(first.equal(other));
}

TEST(Dropout, is_its_own_adjoint_to_any_order) {
  const Communicator alone;
  expect_adjoint([](const at::Tensor& x) { return dropout(x, 0.4, kPlace, kTraining); }, Kind::replicated,
                 Kind::replicated, {3, 4, 10}, alone);
  expect_adjoint([](const at::Tensor& x) { return attention_dropout(x, 0.4, "a", 1, kTraining); }, Kind::replicated,
                 Kind::replicated, {2, 3, 4, 4}, alone);
}

TEST(AttentionDropout, draws_each_head_by_its_global_place) {
  const auto draw = [](int64_t heads, int64_t first) {
    return attention_dropout(at::ones({2, heads, 4, 4}, at::kDouble), 0.5, "a", first, kTraining);
  };
  EXPECT_TRUE(draw(3, 0).slice(1, 1).equal(draw(2, 1)));
}

TEST(Dropout, refuses_probabilities_outside_zero_to_one) {
  EXPECT_THROW(dropout(at::ones({1, 1}), 1.0, kPlace, kTraining), InvalidArgument);
  EXPECT_THROW(dropout(at::ones({1, 1}), -0.1, kPlace, kTraining), InvalidArgument);
  EXPECT_THROW(dropout(at::ones({1}), 0.1, kPlace, kTraining), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::nn
