#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "adjoin/base/half.hpp"
#include "adjoin/comm/reduction.hpp"

/// The loops behind reduce_all_into. Everything here is inlined into one caller for each instruction set, so that the
/// compiler vectorises the same lines for each; hence the attributes. Included by reduction.cpp alone.
namespace adjoin::kernels {

/// Elements reduced at once: their accumulators (at most 8 bytes each) take half of a 32 KiB cache.
inline constexpr int64_t kBlock = 2048;

// Signed overflow is undefined, unsigned wraps around.
template <class T>
struct Arithmetic {
  using type = T;
};
template <>
struct Arithmetic<int32_t> {
  using type = uint32_t;
};
template <>
struct Arithmetic<int64_t> {
  using type = uint64_t;
};

template <Reduction R, class T>
[[gnu::always_inline]] inline T combine(T a, T b) {
  using U = typename Arithmetic<T>::type;
  if constexpr (std::is_same_v<T, bool>) {
    return R == Reduction::sum || R == Reduction::max ? a | b : a & b;
  } else if constexpr (R == Reduction::sum) {
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else if constexpr (R == Reduction::product) {
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    // A NaN `b` loses no comparison: it comes out by the last branch.
    const bool keep = R == Reduction::min ? a < b : a > b;
    return keep || a != a ? a : b;
  }
}

/// out[i] = a[i] (op) b[i]; `out` may be `a` or `b`, which carries nothing from one i to the next.
template <Reduction R, class T>
[[gnu::always_inline]] inline void combine_arrays(T* out, const T* a, const T* b, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = combine<R, T>(a[i], b[i]);
}

[[gnu::always_inline]] inline BFloat16 narrow(float x, BFloat16) {
  return to_bfloat16(x);
}
[[gnu::always_inline]] inline Float16 narrow(float x, Float16) {
  return to_float16(x);
}

template <class H>
[[gnu::always_inline]] inline void widen_array(float* out, const H* in, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = to_float(in[i]);
}

template <class H>
[[gnu::always_inline]] inline void narrow_array(H* out, const float* in, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = narrow(in[i], H{});
}

/// One block of a type that is its own accumulator.
template <Reduction R, class T>
[[gnu::always_inline]] inline void reduce_block(T* out, std::span<const void* const> inputs, int64_t begin, int64_t n) {
  const auto input = [&](size_t k) { return static_cast<const T*>(inputs[k]) + begin; };
  if (inputs.size() == 2) {
    combine_arrays<R>(out, input(0), input(1), n);
    return;
  }
  T sum[kBlock];  // `out` may be an input that is read later
  combine_arrays<R, T>(sum, input(0), input(1), n);
  for (size_t k = 2; k + 1 < inputs.size(); ++k) combine_arrays<R, T>(sum, sum, input(k), n);
  combine_arrays<R, T>(out, sum, input(inputs.size() - 1), n);
}

/// One block of a 16-bit type, accumulated in float32.
template <Reduction R, class H>
[[gnu::always_inline]] inline void reduce_half_block(H* out, std::span<const void* const> inputs, int64_t begin,
                                                     int64_t n) {
  float sum[kBlock], next[kBlock];
  widen_array(sum, static_cast<const H*>(inputs[0]) + begin, n);
  for (size_t k = 1; k < inputs.size(); ++k) {
    widen_array(next, static_cast<const H*>(inputs[k]) + begin, n);
    combine_arrays<R, float>(sum, sum, next, n);
  }
  narrow_array(out, sum, n);
}

template <Reduction R, class T>
[[gnu::always_inline]] inline void reduce_typed(void* out, std::span<const void* const> inputs, int64_t count) {
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    T* block = static_cast<T*>(out) + begin;
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
      reduce_half_block<R>(block, inputs, begin, n);
    else
      reduce_block<R>(block, inputs, begin, n);
  }
}

template <Reduction R>
[[gnu::always_inline]] inline void reduce_any(ElementType type, void* out, std::span<const void* const> inputs,
                                              int64_t count) {
  switch (type) {
    case ElementType::boolean:
      return reduce_typed<R, bool>(out, inputs, count);
    case ElementType::uint8:
      return reduce_typed<R, uint8_t>(out, inputs, count);
    case ElementType::int32:
      return reduce_typed<R, int32_t>(out, inputs, count);
    case ElementType::int64:
      return reduce_typed<R, int64_t>(out, inputs, count);
    case ElementType::float16:
      return reduce_typed<R, Float16>(out, inputs, count);
    case ElementType::bfloat16:
      return reduce_typed<R, BFloat16>(out, inputs, count);
    case ElementType::float32:
      return reduce_typed<R, float>(out, inputs, count);
    case ElementType::float64:
      return reduce_typed<R, double>(out, inputs, count);
  }
}

struct Arguments {
  ElementType type;
  Reduction reduction;
  void* out;
  std::span<const void* const> inputs;
  int64_t count;
};

[[gnu::always_inline]] inline void reduce(const Arguments& a) {
  switch (a.reduction) {
    case Reduction::sum:
      return reduce_any<Reduction::sum>(a.type, a.out, a.inputs, a.count);
    case Reduction::product:
      return reduce_any<Reduction::product>(a.type, a.out, a.inputs, a.count);
    case Reduction::min:
      return reduce_any<Reduction::min>(a.type, a.out, a.inputs, a.count);
    case Reduction::max:
      return reduce_any<Reduction::max>(a.type, a.out, a.inputs, a.count);
  }
}

}  // namespace adjoin::kernels
