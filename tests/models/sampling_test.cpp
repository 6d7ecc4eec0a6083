#include "adjoin/models/sampling.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "adjoin/base/error.hpp"
#include "tests/support/odd_memory.hpp"

namespace adjoin::models {
namespace {

/// How often each word is drawn, in parts of all draws.
std::vector<double> shares_of_words(const at::Tensor& scores, const Sampling& sampling) {
  constexpr int64_t kDraws = 20000;
  std::vector<double> shares(static_cast<size_t>(scores.numel()));
  for (int64_t position = 0; position < kDraws; ++position)
    shares[static_cast<size_t>(drawn_word(scores, sampling, position))] += 1.0 / kDraws;
  return shares;
}

const at::Tensor kProbabilities = at::tensor({0.1, 0.4, 0.05, 0.3, 0.15}, at::kDouble);
constexpr double kFourDeviations = 4 * 0.5 / 141;  // of a share of 20,000 draws

void expect_shares(const Sampling& sampling, const std::vector<double>& expected) {
  const std::vector<double> found = shares_of_words(kProbabilities.log() + 7, sampling);
  for (size_t word = 0; word < expected.size(); ++word) {
    EXPECT_NEAR(found[word], expected[word], expected[word] == 0 ? 0 : kFourDeviations) << word;
  }
}

TEST(Sampling, draws_words_as_often_as_they_are_likely) {
  expect_shares({}, {0.1, 0.4, 0.05, 0.3, 0.15});
}

TEST(Sampling, sharpens_by_temperature) {
  // Half the temperature squares the probabilities, whose sum is then 0.285.
  expect_shares({.temperature = 0.5}, {0.01 / 0.285, 0.16 / 0.285, 0.0025 / 0.285, 0.09 / 0.285, 0.0225 / 0.285});
}

TEST(Sampling, keeps_the_likeliest_words) {
  expect_shares({.top_k = 2}, {0, 4.0 / 7, 0, 3.0 / 7, 0});
  expect_shares({.top_k = 9}, {0.1, 0.4, 0.05, 0.3, 0.15});
  expect_shares({.top_p = 0.71}, {0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85});
  expect_shares({.top_p = 0.39}, {0, 1, 0, 0, 0});
  expect_shares({.top_k = 2, .top_p = 0.5}, {0, 1, 0, 0, 0});
}

TEST(Sampling, takes_the_first_of_equal_words_as_the_likeliest) {
  EXPECT_EQ(likeliest_word(at::tensor({1.0, 3.0, 3.0, 2.0})), 1);
  EXPECT_EQ(drawn_word(at::tensor({1.0, 3.0, 3.0, 2.0}), {.top_k = 1}, 5), 1);
}

TEST(Sampling, ends_where_the_probabilities_come_to_top_p_exactly) {
  const std::vector<double> shares = shares_of_words(at::zeros({4}, at::kDouble), {.top_p = 0.5});
  EXPECT_NEAR(shares[0], 0.5, kFourDeviations);
  EXPECT_NEAR(shares[1], 0.5, kFourDeviations);
}

TEST(Sampling, takes_scores_of_any_size_and_type) {
  EXPECT_EQ(drawn_word(at::tensor({-1e4, 1e4, 0.0}, at::kDouble), {.temperature = 1e-3}, 0), 1);
  EXPECT_EQ(likeliest_word(at::tensor({0.0, 1.0}).to(at::kBFloat16)), 1);
}

TEST(Sampling, reads_scores_in_any_memory) {
  testing::Numbers odd(1);
  for (int trial = 0; trial < 8; ++trial) EXPECT_EQ(likeliest_word(testing::in_odd_memory(kProbabilities, odd)), 1);
}

TEST(Sampling, refuses_options_and_scores_that_are_none) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double temperature : {0.0, -1.0, kInfinity, std::nan("")})
    EXPECT_THROW(check({.temperature = temperature}), InvalidArgument) << temperature;
  for (const int64_t k : {0, -3}) EXPECT_THROW(check({.top_k = k}), InvalidArgument) << k;
  for (const double p : {0.0, -0.5, 1.01, std::nan("")}) EXPECT_THROW(check({.top_p = p}), InvalidArgument) << p;
  EXPECT_NO_THROW(check({}));
  EXPECT_THROW(likeliest_word(at::tensor({0.0, std::nan("")})), InvalidArgument);
  EXPECT_THROW(drawn_word(at::tensor({0.0, kInfinity}), {}, 0), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::models
