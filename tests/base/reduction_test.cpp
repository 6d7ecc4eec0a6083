#include "adjoin/base/reduction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/reduction_loops.hpp"
#include "tests/support/elements.hpp"

namespace adjoin {
namespace {

using testing::elements_of;
using testing::for_each_type;
using testing::reduce_scalar;
using testing::same_bits;

using Reduce = std::function<void(Buffer out, std::span<const void* const> inputs, Reduction reduction)>;

template <class T>
void expect_reduces_like_scalar_code(const Reduce& reduce, Reduction reduction, size_t inputs, int64_t count) {
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
    reduce({out, count, element_type_of<T>}, in, reduction);
    ASSERT_TRUE(same_bits<T>(out, expected.data(), count))
        << name(element_type_of<T>) << " " << name(reduction) << " of " << inputs << " x " << count;
  }
}

void expect_all_reduce_like_scalar_code(const Reduce& reduce, const std::vector<size_t>& numbers_of_inputs) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (int r = 0; r < kReductions; ++r)
      for (const size_t inputs : numbers_of_inputs)
        for (const int64_t count : {1, 7, 100, 2500})
          if (const auto reduction = static_cast<Reduction>(r); is_defined(reduction, element_type_of<T>))
            expect_reduces_like_scalar_code<T>(reduce, reduction, inputs, count);
  });
}

TEST(Reduction, is_that_of_scalar_code_for_all_types_and_lengths) {
  const Reduce reduce = [](Buffer out, std::span<const void* const> inputs, Reduction reduction) {
    reduce_all_into(out, inputs, reduction);
  };
  expect_all_reduce_like_scalar_code(reduce, {1, 2, 3, 5});
  reduce_all_into({nullptr, 0, ElementType::float32}, std::vector<const void*>{nullptr, nullptr}, Reduction::sum);
}

TEST(Reduction, is_the_same_by_every_instruction_set_of_this_machine) {
  for (const auto set : kInstructionSets) {
    if (!is_supported(set)) continue;
    SCOPED_TRACE(static_cast<int>(set));
    const Reduce reduce = [set](Buffer out, std::span<const void* const> inputs, Reduction reduction) {
      reduce_with(set, {out.type, reduction, std::span(&out.data, 1), inputs, out.count});
    };
    expect_all_reduce_like_scalar_code(reduce, {2, 3, 5});
  }
}

template <class T>
void expect_the_same_in_each_input(Reduction reduction, size_t inputs) {
  constexpr int64_t count = 2500;
  std::mt19937 random(7);
  std::vector<std::vector<char>> data;
  for (size_t k = 0; k < inputs; ++k) data.push_back(elements_of<T>(count, random));
  std::vector<const void*> ins;
  std::vector<void*> outs;
  for (auto& one : data) ins.push_back(one.data()), outs.push_back(one.data());
  std::vector<char> expected(data[0].size());
  reduce_all_into({expected.data(), count, element_type_of<T>}, ins, reduction);
  reduce_all_into(outs, element_type_of<T>, count, ins, reduction);
  for (const auto& one : data)
    ASSERT_TRUE(same_bits<T>(one.data(), expected.data(), count))
        << name(element_type_of<T>) << " " << name(reduction) << " of " << inputs;
}

TEST(Reduction, into_all_inputs_at_once_is_that_into_one_place) {
  for_each_type([](auto zero) {
    using T = decltype(zero);
    for (int r = 0; r < kReductions; ++r)
      for (const size_t inputs : {1u, 2u, 3u, 5u})
        if (const auto reduction = static_cast<Reduction>(r); is_defined(reduction, element_type_of<T>))
          expect_the_same_in_each_input<T>(reduction, inputs);
  });
}

template <class T>
void expect_pairwise_steps_give_the_same(Reduction reduction, size_t inputs) {
  std::vector<std::vector<T>> data(inputs, std::vector<T>(9));
  std::vector<const void*> pointers;
  for (size_t k = 0; k < inputs; ++k) {
    for (size_t i = 0; i < 9; ++i) data[k][i] = testing::element_from<T>(static_cast<double>((3 * k + 2 * i) % 5));
    pointers.push_back(data[k].data());
  }
  std::vector<T> expected(9), steps = data[0];
  reduce_all_into(buffer(expected), pointers, reduction);
  for (size_t k = 1; k < inputs; ++k) reduce_into(buffer(steps), const_buffer(data[k]), pairwise_of(reduction));
  finish_reduction(buffer(steps), reduction, static_cast<int64_t>(inputs));
  EXPECT_TRUE(same_bits<T>(steps.data(), expected.data(), 9)) << name(reduction) << " of " << inputs;
}

TEST(Reduction, in_pairs_and_finished_is_that_of_all_at_once) {
  for (const size_t inputs : {1u, 2u, 3u, 7u})
    for (int r = 0; r < kReductions; ++r) {
      const auto reduction = static_cast<Reduction>(r);
      if (is_defined(reduction, ElementType::float16)) expect_pairwise_steps_give_the_same<Float16>(reduction, inputs);
      if (is_defined(reduction, ElementType::float64)) expect_pairwise_steps_give_the_same<double>(reduction, inputs);
      if (is_defined(reduction, ElementType::int32)) expect_pairwise_steps_give_the_same<int32_t>(reduction, inputs);
    }
}

TEST(Reduction, is_defined_where_its_result_is_an_element_of_the_type) {
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    const bool is_float = type == ElementType::float16 || type == ElementType::bfloat16 ||
                          type == ElementType::float32 || type == ElementType::float64;
    for (const auto r : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max})
      EXPECT_TRUE(is_defined(r, type));
    EXPECT_EQ(is_defined(Reduction::average, type), is_float);
    for (const auto r : {Reduction::bit_and, Reduction::bit_or, Reduction::bit_xor, Reduction::logical_and,
                         Reduction::logical_or, Reduction::logical_xor})
      EXPECT_EQ(is_defined(r, type), !is_float);
  }
  std::vector<int32_t> x{1};
  EXPECT_THROW(reduce_into(buffer(x), const_buffer(x), Reduction::average), InvalidArgument);
}

TEST(Reduction, averages_float16_whose_sum_would_overflow) {
  const std::vector<Float16> large(5, to_float16(60000.0f));
  std::vector<Float16> mean(5);
  reduce_all_into(buffer(mean), std::vector<const void*>{large.data(), large.data(), large.data()}, Reduction::average);
  for (const Float16 x : mean) EXPECT_EQ(to_float(x), to_float(large[0]));
}

TEST(Reduction, gives_zero_or_one_where_it_is_logical) {
  std::vector<int32_t> a{4, 0, 4, 0}, b{2, 2, 0, 0};
  const auto with = [&](Reduction reduction) {
    auto x = a;
    reduce_into(buffer(x), const_buffer(b), reduction);
    return x;
  };
  EXPECT_EQ(with(Reduction::logical_and), (std::vector<int32_t>{1, 0, 0, 0}));
  EXPECT_EQ(with(Reduction::logical_or), (std::vector<int32_t>{1, 1, 1, 0}));
  EXPECT_EQ(with(Reduction::logical_xor), (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(with(Reduction::bit_or), (std::vector<int32_t>{6, 2, 4, 0}));
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
