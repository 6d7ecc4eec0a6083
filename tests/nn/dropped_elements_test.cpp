#include "adjoin/nn/dropped_elements.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace adjoin::nn {
namespace {

/// Numbers of all exponents and signs, whose last bits are halves of a 16-bit number's, infinities and NaN; no whole number of
/// registers. Twice a number is finite, as a fused multiplication and addition might have it.
std::vector<float> tried_numbers() {
  std::vector<float> all{0.0F, -0.0F, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
  for (uint32_t i = 0; i < 4093; ++i) {
    const uint32_t bits = (i << 20) | (i % 7 == 0 ? 0x8000U : i % 7 == 1 ? 0x18000U : i * 2654435761U >> 12);
    float number = 0;
    std::memcpy(&number, &bits, sizeof number);
    if (std::fabs(number) < std::numeric_limits<float>::max() / 2) all.push_back(number);
  }
  return all;
}

template <class T>
at::Tensor tensor_of(std::vector<T>& values) {
  return at::from_blob(values.data(), {std::ssize(values)}, c10::CppTypeToScalarType<T>::value);
}

template <class Out, class In>
void expect_as_libtorch(bool with_base) {
  std::vector<float> source = tried_numbers();
  const auto size = std::ssize(source);
  std::vector<uint16_t> words;
  for (int64_t i = 0; i < size; ++i) words.push_back(static_cast<uint16_t>(i * 40503));
  const at::Tensor in = tensor_of(source).to(c10::CppTypeToScalarType<In>::value);
  const at::Tensor base = in.flip(0).to(c10::CppTypeToScalarType<Out>::value);
  const auto real = std::is_same_v<Out, double> ? at::kDouble : at::kFloat;
  // A power of two, so that products are exact and a fused multiplication and addition rounds as the two do.
  at::Tensor expected = in.to(real) * 2;
  for (int64_t i = 0; i < size; ++i)
    if (words[static_cast<size_t>(i)] < 20000) expected[i] = 0;
  if (with_base) expected = expected + base.to(real);
  expected = expected.to(c10::CppTypeToScalarType<Out>::value);
  for (const InstructionSet set : kInstructionSets) {
    if (!is_supported(set)) continue;
    const at::Tensor out = at::empty_like(expected);
    drop_elements(set, {size, words.data(), 20000, 2.0}, in.const_data_ptr<In>(),
                  with_base ? base.const_data_ptr<Out>() : nullptr, out.mutable_data_ptr<Out>());
    EXPECT_TRUE(at::allclose(out, expected, 0, 0, /*equal_nan=*/true))
        << in.scalar_type() << " to " << out.scalar_type() << ", set " << static_cast<int>(set);
  }
}

template <class Out, class In>
void expect_as_libtorch() {
  for (const bool with_base : {false, true}) expect_as_libtorch<Out, In>(with_base);
}

TEST(DropElements, rounds_as_libtorch_does_on_every_instruction_set) {
  expect_as_libtorch<double, double>();
  expect_as_libtorch<float, float>();
  expect_as_libtorch<c10::BFloat16, c10::BFloat16>();
  expect_as_libtorch<c10::Half, c10::Half>();
  expect_as_libtorch<float, c10::BFloat16>();
  expect_as_libtorch<float, c10::Half>();
  expect_as_libtorch<c10::BFloat16, float>();
  expect_as_libtorch<c10::Half, float>();
}

}  // namespace
}  // namespace adjoin::nn
