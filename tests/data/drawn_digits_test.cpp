#include "examples/support/drawn_digits.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace adjoin::example {
namespace {

TEST(DrawnDigits, are_the_same_for_a_seed_and_differ_from_each_other) {
  const LabelledPictures digits = draw_digits(30, 5), more = draw_digits(40, 5), other = draw_digits(30, 6);
  EXPECT_EQ(digits.pictures.sizes(), (at::IntArrayRef{30, 28, 28}));
  EXPECT_TRUE(digits.pictures.equal(more.pictures.narrow(0, 0, 30)));
  EXPECT_FALSE(digits.pictures.equal(other.pictures));
  EXPECT_TRUE(digits.labels.equal(at::arange(30).remainder(10).to(at::kByte)));
  const at::Tensor ink = digits.pictures > 100;
  for (int64_t a = 0; a < 30; ++a) {
    EXPECT_GT(ink[a].sum().item<int64_t>(), 20) << a;
    for (int64_t b = 0; b < a; ++b) EXPECT_FALSE(digits.pictures[a].equal(digits.pictures[b])) << a << " and " << b;
  }
}

TEST(DrawnDigits, show_the_segments_of_their_labels) {
  const LabelledPictures digits = draw_digits(200, 1);
  const at::Tensor ink = (digits.pictures > 100).to(at::kDouble).sum({1, 2}).view({20, 10}).mean(0);
  for (int64_t digit : {0, 1, 2, 3, 4, 5, 6, 7, 9})  // 8 shows all segments, 1 the fewest
    EXPECT_LT(ink[digit].item<double>(), ink[8].item<double>()) << digit;
  for (int64_t digit : {0, 2, 3, 4, 5, 6, 7, 8, 9})
    EXPECT_GT(ink[digit].item<double>(), ink[1].item<double>()) << digit;
}

}  // namespace
}  // namespace adjoin::example
