#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "tests/support/failures.hpp"

namespace adjoin::nn {
namespace {

using adjoin::testing::failure_of;
using ::testing::HasSubstr;

TEST(Attention, refuses_second_derivatives_rather_than_give_wrong_ones) {
  const at::Tensor x = at::ones({3, 1, 2}, at::kDouble).requires_grad_();
  const at::Tensor y = attention(x, x, x, TokenRows::balanced({3}, 1), Communicator());
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true), InvalidArgument);
}

/// The message of the InvalidArgument that a world of three meets where rank 1 is given something else.
template <class Call>
std::string attention_refusal(const Call& call, bool checked = false) {
  const auto meet = [&](const Communicator& world) {
    const TokenRows rows = TokenRows::balanced({7}, world.size());
    call(world, rows, at::ones({rows.size(world.rank()), 2, 4}), world.rank() == 1);
  };
  return failure_of<InvalidArgument>(3, meet, {.checked = checked});
}

TEST(AttentionFailure, says_what_does_not_fit) {
  EXPECT_THAT(attention_refusal([](const Communicator& world, const TokenRows&, const at::Tensor& x, bool) {
                attention(x, x, x, TokenRows::balanced({7}, 2), world);
              }),
              HasSubstr("attention: expected rows of 3 workers, one for each rank of the group, got those of 2"));
  EXPECT_THAT(attention_refusal([](const Communicator& world, const TokenRows& rows, const at::Tensor& x, bool) {
                attention(x, x, x, rows, world, {.dropout = 1});
              }),
              HasSubstr("expected a dropout in [0, 1), got 1"));
  EXPECT_THAT(attention_refusal([](const Communicator& world, const TokenRows& rows, const at::Tensor& x, bool odd) {
                attention(x, x, odd ? x.to(at::kDouble) : x, rows, world);
              }),
              HasSubstr("rank 1: expected q, k and v of one type, got Float, Float and Double"));
  EXPECT_THAT(attention_refusal([](const Communicator& world, const TokenRows& rows, const at::Tensor& x, bool odd) {
                attention(odd ? x.narrow(0, 1, 1) : x, x, x, rows, world);
              }),
              HasSubstr("rank 1: expected q of shape [2 rows, heads, head size], got shape [1, 2, 4]"));
  EXPECT_THAT(attention_refusal([](const Communicator& world, const TokenRows& rows, const at::Tensor& x, bool odd) {
                attention(odd ? x.narrow(1, 0, 1) : x, x, x, rows, world);
              }),
              HasSubstr("rank 1: expected q and k with heads of one size"));
  EXPECT_THAT(attention_refusal([](const Communicator& world, const TokenRows& rows, const at::Tensor& x, bool) {
                attention(x, x, x, rows, world, {.mask = [](int64_t, Range, Range) { return at::ones({1}); }});
              }),
              HasSubstr("expected a mask function that returns Bool and shape"));
}

TEST(AttentionFailure, in_checked_mode_says_what_differs_between_ranks) {
  // As many elements, which no message would notice.
  EXPECT_THAT(attention_refusal(
                  [](const Communicator& world, const TokenRows& rows, const at::Tensor& x, bool odd) {
                    const at::Tensor y = odd ? x.view({-1, 4, 2}) : x;
                    attention(y, y, y, rows, world);
                  },
                  /*checked=*/true),
              HasSubstr("from rank 1 on ring of Float, q of 4 heads of 2 without a gradient"));
  EXPECT_THAT(attention_refusal(
                  [](const Communicator& world, const TokenRows& rows, const at::Tensor& x, bool odd) {
                    attention(x, x, x, odd ? TokenRows::zigzag({7}, 3) : rows, world, {.causal = odd});
                  },
                  /*checked=*/true),
              HasSubstr("causal, samples of [7] as 0:[0, 2) 0:[6, 7) | 0:[2, 3) 0:[5, 6)"));
}

}  // namespace
}  // namespace adjoin::nn
