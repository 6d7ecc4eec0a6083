#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adjoin/movement/forward_record.hpp"
#include "adjoin/movement/mappings.hpp"
#include "tests/support/line.hpp"

// Of what check_gradients is told beside parameters and the loss.
namespace adjoin {
namespace {

using namespace adjoin::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CheckGradients, finds_values_to_be_what_they_are_said_to_be) {
  for_each_line([](const Line& line) {
    const auto& w = line.world;
    const auto error_as = [&](Kind kind, const at::Tensor& hidden) {
      return line.error(reduce_from(hidden * line.part, w).sum(), {line.known("hidden", hidden, kind)});
    };
    const at::Tensor own = line.copy * line.part;
    EXPECT_EQ(error_as(Kind::copied, all_sum_reduce(own, w)), kNothing);
    EXPECT_THAT(
        error_as(Kind::copied, own),
        HasSubstr("'hidden' differs between ranks ('part'), but was declared as one that is copied. A movement"))
        << "the sum is left out, and what differs fits as well";
    EXPECT_THAT(error_as(Kind::split, all_sum_reduce(own, w)),
                AllOf(HasSubstr("'hidden' is copied (from all_sum_reduce at "), HasSubstr("one that differs")));
    // Of two outputs of one operation, and of a tensor that is said to be the same by two names.
    const auto halves = own.chunk(2);
    EXPECT_EQ(line.error((halves[0] * halves[1]).sum(),
                         {line.known("a", halves[0], Kind::split), line.known("b", halves[1], Kind::partial),
                          line.known("also a", halves[0], Kind::split)}),
              kNothing);
    EXPECT_THAT(line.error((halves[0] * halves[1]).sum(), {line.known("b", halves[1], Kind::copied)}),
                HasSubstr("'b'"));
  });
}

TEST(CheckGradients, follows_movements_of_what_has_no_gradient_where_they_were_noted) {
  for_each_line([](const Line& line) {
    const auto& w = line.world;
    const at::Tensor x = at::ones({12, 12}, at::kDouble);
    const auto error = [&](const std::function<at::Tensor(const at::Tensor&)>& movement, const at::Tensor& weight) {
      const at::Tensor loss = movement(x).mm(weight).sum();
      return line.error(loss, {line.known("x", x, Kind::replicated)});
    };
    const auto own = [&](const at::Tensor& t) { return scatter_to(t, w, line.split); };
    const auto summed = [&](const at::Tensor& t) { return all_sum_reduce(t, w); };
    EXPECT_EQ(error(own, line.whole), kNothing) << "not known";
    const ForwardRecord notes;
    EXPECT_THAT(error(own, line.whole),
                HasSubstr("'whole' is replicated, but MmBackward0 uses it with a tensor that differs "
                          "between ranks (from scatter_to at "));
    EXPECT_EQ(error(own, line.copy), kNothing);
    EXPECT_THAT(error(summed, line.whole),
                HasSubstr("expects a tensor that differs between ranks, but its input is copied ('x')"));
    const ForwardRecord others;
    EXPECT_EQ(error([&](const at::Tensor& t) { return gather_from(own(t), w, line.split); }, line.whole), kNothing);
  });
}

}  // namespace
}  // namespace adjoin
