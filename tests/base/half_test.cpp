#include "adjoin/base/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace adjoin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of a binary floating-point number by its definition in IEEE 754.
double value_of(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>((bits >> fraction_bits) & ((1u << exponent_bits) - 1));
  const double sign = (bits >> (exponent_bits + fraction_bits)) & 1u ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? std::nan("") : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(1.0 + std::ldexp(fraction, -fraction_bits), exponent - bias);
}

template <class Half, class Narrow>
void expect_every_pattern_converts(int exponent_bits, int fraction_bits, Narrow narrow) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const double expected = value_of(bits, exponent_bits, fraction_bits);
    const float actual = to_float(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
      ASSERT_TRUE(std::isnan(to_float(narrow(actual)))) << bits;
    } else {
      ASSERT_EQ(actual, expected) << bits;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
      ASSERT_EQ(narrow(actual).bits, bits);
    }
  }
}

/// Between each two neighbours: below the middle rounds down, above it up, and the middle to the even one.
template <class Half, class Narrow>
void expect_rounding_to_nearest_even(uint32_t largest_finite, int exponent_bits, int fraction_bits, Narrow narrow) {
  for (uint32_t bits = 0; bits < largest_finite; ++bits) {
    const double low = value_of(bits, exponent_bits, fraction_bits);
    const double high = value_of(bits + 1, exponent_bits, fraction_bits);
    const auto middle = static_cast<float>((low + high) / 2);
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(narrow(middle).bits, even) << bits;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(narrow(std::nextafter(middle, kInfinity)).bits, bits + 1) << bits;
    ASSERT_EQ(narrow(-middle).bits, even | 0x8000u) << bits;
  }
}

TEST(Float16, every_pattern_has_its_ieee_value_and_comes_back) {
  expect_every_pattern_converts<Float16>(5, 10, to_float16);
}

TEST(BFloat16, every_pattern_has_its_value_and_comes_back) {
  expect_every_pattern_converts<BFloat16>(8, 7, to_bfloat16);
}

TEST(Float16, rounds_to_nearest_and_ties_to_even) {
  expect_rounding_to_nearest_even<Float16>(0x7bff, 5, 10, to_float16);
}

TEST(BFloat16, rounds_to_nearest_and_ties_to_even) {
  expect_rounding_to_nearest_even<BFloat16>(0x7f7f, 8, 7, to_bfloat16);
}

TEST(Float16, overflows_to_infinity_from_half_a_step_beyond_the_largest) {
  EXPECT_EQ(to_float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_float16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(to_float16(kInfinity).bits, 0x7c00);
}

TEST(BFloat16, overflows_to_infinity_from_half_a_step_beyond_the_largest) {
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bfloat16(-kInfinity).bits, 0xff80);
}

}  // namespace
}  // namespace adjoin
