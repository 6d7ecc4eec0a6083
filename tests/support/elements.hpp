#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "adjoin/base/buffer.hpp"
#include "adjoin/base/reduction.hpp"
#include "adjoin/lab/exercise.hpp"

/// Elements of every type for tests, and reductions by plain scalar code to compare with.
namespace adjoin::testing {

template <class Work>
void for_each_type(Work work) {
  work(bool{});
  work(uint8_t{});
  work(int32_t{});
  work(int64_t{});
  work(Float16{});
  work(BFloat16{});
  work(float{});
  work(double{});
}

template <class T>
inline constexpr bool is_half = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <class T>
T element_from(double x) {
  if constexpr (std::is_same_v<T, Float16>)
    return to_float16(static_cast<float>(x));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(static_cast<float>(x));
  else if constexpr (std::is_same_v<T, bool>)
    return std::fmod(std::abs(x), 2.0) >= 1.0;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return static_cast<uint8_t>(std::abs(x));
  else
    return static_cast<T>(x);
}

template <class T>
void put(std::vector<char>& bytes, int64_t i, T x) {
  std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &x, sizeof(T));
}

template <class T>
T get(const void* bytes, int64_t i) {
  T x;
  std::memcpy(&x, static_cast<const char*>(bytes) + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return x;
}

/// Random elements; among floats some NaNs, infinities and zeros of both signs.
template <class T>
std::vector<char> elements_of(int64_t count, std::mt19937& random) {
  std::vector<char> bytes(static_cast<size_t>(count) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    const auto pick = random() % 64;
    double x = static_cast<double>(random() % 20000) / 100.0 - 100.0;
    if constexpr (is_half<T> || std::is_floating_point_v<T>) {
      if (pick == 0) x = std::nan("");
      if (pick == 1) x = HUGE_VAL;
      if (pick == 2) x = -0.0;
    }
    put<T>(bytes, i, element_from<T>(x));
  }
  return bytes;
}

template <class T>
T combine_scalar(T a, T b, Reduction reduction) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(lab::combined(reduction, ElementType::int64, a, b));
  } else {
    if (reduction == Reduction::sum || reduction == Reduction::average) return a + b;
    if (reduction == Reduction::product) return a * b;
    if (std::isnan(a) || std::isnan(b)) return static_cast<T>(NAN);
    return reduction == Reduction::min ? std::min(b, a) : std::max(b, a);
  }
}

/// All inputs of one element, which have been combined, as the result.
template <class T>
T finish_scalar(T combined, size_t inputs, Reduction reduction) {
  if (reduction == Reduction::average) return combined / static_cast<T>(inputs);
  return reduction >= Reduction::logical_and ? static_cast<T>(combined != T{}) : combined;
}

/// The inputs reduced from left to right, one element after the other; 16-bit floats in float32, rounded once.
template <class T>
std::vector<char> reduce_scalar(const std::vector<const void*>& inputs, int64_t count, Reduction reduction) {
  std::vector<char> out(static_cast<size_t>(count) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (is_half<T>) {
      float sum = to_float(get<T>(inputs[0], i));
      for (size_t k = 1; k < inputs.size(); ++k) sum = combine_scalar(sum, to_float(get<T>(inputs[k], i)), reduction);
      sum = finish_scalar(sum, inputs.size(), reduction);
      put<T>(out, i, inputs.size() == 1 ? get<T>(inputs[0], i) : element_from<T>(sum));
    } else {
      T sum = get<T>(inputs[0], i);
      for (size_t k = 1; k < inputs.size(); ++k) sum = combine_scalar(sum, get<T>(inputs[k], i), reduction);
      put<T>(out, i, finish_scalar(sum, inputs.size(), reduction));
    }
  }
  return out;
}

/// Equal to the bit, where any NaN is as good as another.
template <class T>
bool same_bits(const void* a, const void* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T x = get<T>(a, i), y = get<T>(b, i);
    if (std::memcmp(&x, &y, sizeof(T)) == 0) continue;
    if constexpr (is_half<T>) {
      if (std::isnan(to_float(x)) && std::isnan(to_float(y))) continue;
    } else if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(x) && std::isnan(y)) continue;
    }
    return false;
  }
  return true;
}

}  // namespace adjoin::testing
