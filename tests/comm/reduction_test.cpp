#include "adjoin/comm/reduction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/elements.hpp"

namespace adjoin {
namespace {

using testing::elements_of;
using testing::for_each_type;
using testing::reduce_scalar;
using testing::same_bits;

template <class T>
void expect_reduces_like_scalar_code(Reduction reduction, size_t inputs, int64_t count) {
  std::mt19937 random(static_cast<unsigned>(count) + static_cast<unsigned>(inputs));
  std::vector<std::vector<char>> data;
  std::vector<const void*> pointers;
  for (size_t k = 0; k < inputs; ++k) data.push_back(elements_of<T>(count, random));
  for (const auto& one : data) pointers.push_back(one.data());
  const auto expected = reduce_scalar<T>(pointers, count, reduction);

  for (size_t target = 0; target <= inputs; ++target) {  // into each of the inputs, and into memory of its own
    auto copies = data;
    auto extra = std::vector<char>(data[0].size());
    std::vector<const void*> in;
    for (const auto& one : copies) in.push_back(one.data());
    char* out = target < inputs ? copies[target].data() : extra.data();
    reduce_all_into({out, count, element_type_of<T>}, in, reduction);
    ASSERT_TRUE(same_bits<T>(out, expected.data(), count))
        << name(element_type_of<T>) << " " << name(reduction) << " of " << inputs << " x " << count;
  }
}

TEST(Reduction, is_that_of_scalar_code_for_all_types_and_lengths) {
  for_each_type([](auto zero) {
    for (int r = 0; r < kReductions; ++r)
      for (const size_t inputs : {1u, 2u, 3u, 5u})
        for (const int64_t count : {0, 1, 7, 100, 2500})
          expect_reduces_like_scalar_code<decltype(zero)>(static_cast<Reduction>(r), inputs, count);
  });
}

TEST(Reduction, works_on_memory_that_is_aligned_to_elements_only) {
  std::vector<float> a(1001, 2.0f), b(1002, 3.0f);
  reduce_into({a.data() + 1, 1000, ElementType::float32}, {b.data() + 2, 1000, ElementType::float32},
              Reduction::product);
  EXPECT_EQ(a[0], 2.0f);
  for (size_t i = 1; i < a.size(); ++i) ASSERT_EQ(a[i], 6.0f);
}

TEST(Reduction, min_and_max_keep_a_nan_of_either_side) {
  const double nan = std::nan("");
  for (const Reduction reduction : {Reduction::min, Reduction::max}) {
    std::vector<double> a{nan, 1, nan, 2}, b{1, nan, nan, 3};
    reduce_into(buffer(a), const_buffer(b), reduction);
    EXPECT_TRUE(std::isnan(a[0]) && std::isnan(a[1]) && std::isnan(a[2]));
    EXPECT_EQ(a[3], reduction == Reduction::min ? 2 : 3);
  }
}

TEST(Reduction, rounds_16_bit_floats_once_for_all_inputs) {
  // 1 + 2^-9 + 2^-9 + 2^-9: each term alone is less than half a step (2^-8) of bfloat16 and would be lost.
  std::vector<std::vector<BFloat16>> inputs;
  for (const float x : {1.0f, 0x1p-9f, 0x1p-9f, 0x1p-9f}) inputs.push_back(std::vector<BFloat16>(3, to_bfloat16(x)));
  std::vector<const void*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<BFloat16> sum(3);
  reduce_all_into(buffer(sum), pointers, Reduction::sum);
  EXPECT_EQ(to_float(sum[2]), 1.0f + 0x1p-7f);
}

TEST(Reduction, wraps_integers_around) {
  std::vector<int32_t> a{std::numeric_limits<int32_t>::max()}, b{1};
  reduce_into(buffer(a), const_buffer(b), Reduction::sum);
  EXPECT_EQ(a[0], std::numeric_limits<int32_t>::min());
}

}  // namespace
}  // namespace adjoin
