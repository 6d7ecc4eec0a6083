#include "adjoin/movement/postponed.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>
#include <utility>

namespace adjoin {
namespace {

/// How often a gradient of `Scaled` was computed on this thread.
thread_local int gradients_computed = 0;

/// weight * factor, whose gradient can wait.
struct Scaled : torch::autograd::Function<Scaled> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& weight, double factor) {
    ctx->save_for_backward({weight});
    ctx->saved_data["factor"] = factor;
    return weight * factor;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list gradients) {
    const auto of_weight = [of_y = gradients[0], factor = ctx->saved_data["factor"].toDouble()] {
      ++gradients_computed;
      return of_y * factor;
    };
    return {parameter_gradient(ctx->get_saved_variables()[0], of_weight), at::Tensor()};
  }
};

at::Tensor ones_with_gradient() {
  return at::ones({2}).requires_grad_(true);
}

void expect_all(const at::Tensor& found, double number) {
  ASSERT_TRUE(found.defined());
  EXPECT_TRUE(at::equal(found, at::full_like(found, number))) << found;
}

TEST(PostponedGradients, are_computed_at_once_where_nobody_collects) {
  const at::Tensor weight = ones_with_gradient();
  Scaled::apply(weight, 3.0).sum().backward();
  expect_all(weight.grad(), 3);
}

TEST(PostponedGradients, are_added_once_when_they_are_computed) {
  const at::Tensor weight = ones_with_gradient();
  Scaled::apply(weight, 3.0).sum().backward();
  const at::Tensor y = Scaled::apply(weight, 4.0).sum();
  PostponedGradients postponed;
  EXPECT_TRUE(postponed.empty());
  postponed.collect([&] { y.backward(); });
  expect_all(weight.grad(), 3);
  EXPECT_FALSE(postponed.empty());
  gradients_computed = 0;
  postponed.compute();
  expect_all(weight.grad(), 7);
  EXPECT_TRUE(postponed.empty());
  postponed.compute();
  expect_all(weight.grad(), 7);
  EXPECT_EQ(gradients_computed, 1);
}

TEST(PostponedGradients, become_the_gradient_without_a_copy) {
  const at::Tensor weight = ones_with_gradient();
  const void* memory = nullptr;
  PostponedGradients postponed;
  postponed.collect([&] {
    const at::NoGradGuard as_in_backward;
    parameter_gradient(weight, [&] {
      at::Tensor gradient = at::full_like(weight, 2);
      memory = gradient.const_data_ptr();
      return gradient;
    });
  });
  postponed.compute();
  expect_all(weight.grad(), 2);
  EXPECT_EQ(weight.grad().const_data_ptr(), memory);
}

TEST(PostponedGradients, of_several_backwards_are_computed_in_any_order) {
  const at::Tensor weight = ones_with_gradient();
  std::vector<PostponedGradients> postponed;
  for (const double factor : {1.0, 10.0}) {
    PostponedGradients of_one;
    of_one.collect([&] { Scaled::apply(weight, factor).sum().backward(); });
    postponed.push_back(std::move(of_one));
  }
  EXPECT_FALSE(weight.grad().defined());
  postponed[1].compute();
  expect_all(weight.grad(), 10);
  postponed[0].compute();
  expect_all(weight.grad(), 11);
}

TEST(PostponedGradients, of_a_parameter_that_is_used_twice_are_summed_before_they_are_added) {
  // In float32 (2^24 + 1) + 1 is 2^24, and 2^24 + (1 + 1) is 2^24 + 2.
  const auto gradient = [](bool waits) {
    const at::Tensor weight = ones_with_gradient();
    weight.mutable_grad() = at::full({2}, 16777216.0f);
    const at::Tensor y = (Scaled::apply(weight, 1.0) + Scaled::apply(weight, 1.0)).sum();
    PostponedGradients postponed;
    waits ? postponed.collect([&] { y.backward(); }) : y.backward();
    postponed.compute();
    return weight.grad();
  };
  expect_all(gradient(false), 16777218);
  expect_all(gradient(true), 16777218);
}

TEST(PostponedGradients, do_not_wait_where_something_else_wants_them) {
  PostponedGradients postponed;
  const at::Tensor leaf = ones_with_gradient();
  postponed.collect([&] { Scaled::apply(leaf * 2, 3.0).sum().backward(); });
  EXPECT_TRUE(postponed.empty()) << "the weight is computed";
  expect_all(leaf.grad(), 6);

  const at::Tensor hooked = ones_with_gradient();
  hooked.register_hook([](const at::Tensor& gradient) { return gradient * 10; });
  postponed.collect([&] { Scaled::apply(hooked, 3.0).sum().backward(); });
  EXPECT_TRUE(postponed.empty()) << "the weight has a hook";
  expect_all(hooked.grad(), 30);

  const at::Tensor twice = ones_with_gradient();
  postponed.collect([&] { Scaled::apply(twice, 3.0).sum().backward({}, std::nullopt, /*create_graph=*/true); });
  EXPECT_TRUE(postponed.empty()) << "backward creates a graph";
  expect_all(twice.grad(), 3);
  twice.mutable_grad() = at::Tensor();  // it and its graph hold each other
}

TEST(PostponedGradients, wait_no_longer_once_backward_ended_by_an_error) {
  PostponedGradients postponed;
  EXPECT_THROW(postponed.collect([] { throw std::runtime_error("backward"); }), std::runtime_error);
  const at::Tensor weight = ones_with_gradient();
  Scaled::apply(weight, 3.0).sum().backward();
  expect_all(weight.grad(), 3);
}

}  // namespace
}  // namespace adjoin
