#include "adjoin/nn/cross_entropy.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

namespace adjoin::nn {
namespace {

TEST(CrossEntropy, shares_of_uneven_parts_add_up_to_the_mean_of_the_whole) {
  const at::Tensor scores = at::tensor({2.0, -1.0, 0.5, 0.25, -3.0, 1.0, 0.0, 4.0}, at::kDouble).view({4, 2});
  const at::Tensor labels = at::tensor({0, 1, 1, 0}, at::kLong);
  const auto part = [&](int64_t begin, int64_t count) {
    return cross_entropy(scores.narrow(0, begin, count), labels.narrow(0, begin, count), 4).item<double>();
  };
  const double mean = torch::nn::functional::cross_entropy(scores, labels).item<double>();
  EXPECT_NEAR(part(0, 3) + part(3, 1) + part(0, 0), mean, 1e-15);
}

TEST(CrossEntropy, of_half_precision_scores_is_computed_in_float32) {
  EXPECT_EQ(cross_entropy(at::ones({1, 2}, at::kBFloat16), at::zeros({1}, at::kLong), 1).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace adjoin::nn
