#include "adjoin/plan/skipped_products.hpp"

#include <ATen/ops/bmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace adjoin::plan {

using namespace train;

namespace {

double total_of(const at::Tensor& tensor) {
  return tensor.sum().item<double>();
}

TEST(SkippedProducts, give_zeros_of_the_same_shapes_with_gradients_as_long_as_they_live) {
  const at::Tensor x = at::ones({3, 4}).requires_grad_(), weight = at::ones({5, 4}).requires_grad_(),
                   bias = at::ones({5}).requires_grad_();
  {
    const SkippedProducts skipped;
    const at::Tensor y = at::linear(x, weight, bias);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({3, 5}));
    EXPECT_EQ(total_of(y), 0);
    y.sum().backward();
    EXPECT_EQ(weight.grad().sizes(), weight.sizes());
    EXPECT_EQ(total_of(weight.grad()), 0);
    EXPECT_EQ(total_of(bias.grad()), 15);  // a sum is no product
    EXPECT_EQ(total_of(at::bmm(at::ones({2, 3, 4}), at::ones({2, 4, 6}))), 0);
  }
  EXPECT_EQ(total_of(at::linear(x, weight, bias)), 3 * 5 * 5);
}

}  // namespace
}  // namespace adjoin::plan
