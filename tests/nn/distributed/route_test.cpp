#include "adjoin/nn/distributed/route.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "tests/support/failures.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

TEST(PerLayout, prepares_once_for_each_of_the_last_layouts) {
  const Grid grid(Communicator(), {{"one", 1}});
  PerLayout<int64_t> squares("Square", grid);
  int prepared = 0;
  const auto of = [&](int64_t size) {
    return squares.of(Layout(grid.shape(), {size}), [&](const Layout& layout) {
      ++prepared;
      return layout.shape()[0] * layout.shape()[0];
    });
  };
  for (int round = 0; round < 3; ++round)
    for (int64_t size = 1; size <= 8; ++size) EXPECT_EQ(of(size), size * size);
  EXPECT_EQ(prepared, 8);
  EXPECT_EQ(of(9), 81);
  EXPECT_EQ(of(8), 64);
  EXPECT_EQ(prepared, 9);
  EXPECT_EQ(of(1), 1);  // the oldest made room
  EXPECT_EQ(prepared, 10);
}

TEST(PerLayout, says_which_layer_a_layout_does_not_fit) {
  const Grid grid(Communicator(), {{"one", 1}});
  PerLayout<int64_t> layer("Square", grid);
  const auto prepare = [](const Layout&) -> int64_t { throw InvalidArgument("expected a square"); };
  EXPECT_EQ(thrown_by<InvalidArgument>([&] {
              layer.of(Layout(grid.shape(), {2, 3}), prepare);
            }),
            "Square: expected a square; the input is [2, 3] on {one: 1}: one replicated");
}

TEST(CheckType, names_the_layer_and_what_came) {
  const Grid grid(Communicator(), {{"one", 1}});
  const auto refusal = [&](at::ScalarType type, at::ScalarType parameters, bool mixes) {
    const DistributedTensor x{at::ones({2}, type), Layout(grid.shape(), {2}), grid};
    return thrown_by<InvalidArgument>([&] { check_type("Layer", x, at::ones({}, parameters), mixes); });
  };
  EXPECT_EQ(refusal(at::kLong, at::kFloat, false),
            "Layer: rank 0: expected an input of floating-point numbers, got Long; its layout is [2] on {one: 1}: one "
            "replicated");
  EXPECT_EQ(refusal(at::kDouble, at::kFloat, true),
            "Layer: rank 0: expected an input of Float, the type of the parameters, got Double; its layout is [2] on "
            "{one: 1}: one "
            "replicated");
  EXPECT_NE(refusal(at::kBFloat16, at::kFloat, false), "nothing was thrown");
  EXPECT_EQ(refusal(at::kBFloat16, at::kFloat, true), "nothing was thrown");
  EXPECT_EQ(refusal(at::kDouble, at::kDouble, false), "nothing was thrown");
}

TEST(Linked, leaves_values_and_gradients_as_they_are) {
  const at::Tensor x = at::full({2, 3}, std::numeric_limits<double>::quiet_NaN()).requires_grad_(true);
  const at::Tensor y = linked(at::ones({4}), {x, at::Tensor(), at::ones({2})});
  EXPECT_TRUE(y.equal(at::ones({4})));
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(at::zeros({2, 3})));
  EXPECT_FALSE(linked(at::ones({4}), {at::ones({2})}).requires_grad());
}

TEST(BalancedOver, cuts_dims_over_the_axes_that_are_named) {
  const GridShape grid({{"a", 2}, {"b", 2}, {"c", 2}});
  const Layout layout = balanced_over(grid, {{"c", "a"}, {}})({9, 5, 3});
  EXPECT_EQ(layout, Layout(grid, {9, 5, 3}, {{Split::balanced(9, 4, 0), {"c", "a"}}}));
  EXPECT_THROW(balanced_over(grid, {{"a"}, {"b"}})({9}), InvalidArgument);
  EXPECT_THROW(balanced_over(grid, {{"d"}})({9}), InvalidArgument);
}

TEST(Summed, is_whole_where_parts_are_summands) {
  const GridShape grid({{"a", 2}, {"b", 3}});
  const Split overlapping = Split::covering({{{0, 3}}, {{2, 5}}}, 5, 0);
  const Layout made(grid, {5, 4}, {{overlapping, {"a"}}}, {{"b", Kind::partial}});
  EXPECT_EQ(summed(made), Layout(grid, {5, 4}));
}

}  // namespace
}  // namespace adjoin::nn
