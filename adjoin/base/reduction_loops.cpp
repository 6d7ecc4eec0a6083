#include "adjoin/base/reduction_loops.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "adjoin/base/half.hpp"

namespace adjoin {

// Everything here is inlined into one function for each instruction set, so that the compiler vectorises the same lines
// for each; hence the attributes.
namespace {

using Arguments = ReductionArguments;

/// Elements reduced at once: their accumulators (at most 8 bytes each) take half of a 32 KiB cache.
inline constexpr int64_t kBlock = 2048;

// Computed unsigned: signed overflow is undefined, unsigned numbers wrap around.
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
  if constexpr (R == Reduction::sum) {
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else if constexpr (R == Reduction::product) {
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else if constexpr (R == Reduction::bit_and) {
    return static_cast<T>(a & b);
  } else if constexpr (R == Reduction::bit_or) {
    return static_cast<T>(a | b);
  } else if constexpr (R == Reduction::bit_xor) {
    return static_cast<T>(a ^ b);
  } else if constexpr (R == Reduction::logical_and) {
    return static_cast<T>((a != 0) & (b != 0));
  } else if constexpr (R == Reduction::logical_or) {
    return static_cast<T>((a | b) != 0);
  } else if constexpr (R == Reduction::logical_xor) {
    return static_cast<T>((a != 0) ^ (b != 0));
  } else {
    // A NaN in `b` makes the comparison false, and the last branch returns it.
    const bool keep = R == Reduction::min ? a < b : a > b;
    return keep || a != a ? a : b;
  }
}

/// out[i] = a[i] (op) b[i]; `out` may be `a` or `b`, since no i depends on another.
template <Reduction R, class T>
[[gnu::always_inline]] inline void combine_arrays(T* out, const T* a, const T* b, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = combine<R, T>(a[i], b[i]);
}

[[gnu::always_inline]] inline float widen(float x) {
  return x;
}
template <class H>
[[gnu::always_inline]] inline float widen(H x) {
  return to_float(x);
}
[[gnu::always_inline]] inline BFloat16 narrow(float x, BFloat16) {
  return to_bfloat16(x);
}
[[gnu::always_inline]] inline Float16 narrow(float x, Float16) {
  return to_float16(x);
}

/// The same for a 16-bit `b`, and possibly a 16-bit `a`.
template <Reduction R, class A, class H>
[[gnu::always_inline]] inline void combine_widened(float* out, const A* a, const H* b, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = combine<R, float>(widen(a[i]), to_float(b[i]));
}

/// outs[i] = make(i) for each of them: a result that several ranks need is written to all while it is in a register.
template <class Make, class... Outs>
[[gnu::always_inline]] inline void write_to(int64_t n, Make make, Outs*... outs) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const auto x = make(i);
    ((outs[i] = x), ...);
  }
}

/// The pointers of one call, and the divisor of its sums: 1 except for an average.
struct Operands {
  std::span<void* const> outs;
  std::span<const void* const> inputs;
  int64_t divisor = 1;

  template <class T>
  [[gnu::always_inline]] const T* in(size_t k, int64_t begin) const {
    return static_cast<const T*>(inputs[k]) + begin;
  }
  template <class T>
  [[gnu::always_inline]] T* out(size_t k, int64_t begin) const {
    return static_cast<T*>(outs[k]) + begin;
  }
};

/// Writes `make(i)` for one block to all outputs.
template <class T, class Make>
[[gnu::always_inline]] inline void write_block(const Operands& of, int64_t begin, int64_t n, Make make) {
  T* first = of.out<T>(0, begin);
  if (of.outs.size() == 1) return write_to(n, make, first);
  write_to(n, make, first, of.out<T>(1, begin));
  for (size_t k = 2; k < of.outs.size(); ++k)
    std::memcpy(of.out<T>(k, begin), first, static_cast<size_t>(n) * sizeof(T));
}

/// Reduces one block of a type that is its own accumulator.
template <Reduction R, class T>
[[gnu::always_inline]] inline void reduce_block(const Operands& of, int64_t begin, int64_t n) {
  const size_t last = of.inputs.size() - 1;
  const T *a = of.in<T>(0, begin), *b = of.in<T>(last, begin);
  T sum[kBlock];  // an output may be an input that is read later
  if (last > 1) {
    combine_arrays<R, T>(sum, a, of.in<T>(1, begin), n);
    for (size_t k = 2; k < last; ++k) combine_arrays<R, T>(sum, sum, of.in<T>(k, begin), n);
    a = sum;
  }
  if constexpr (std::is_floating_point_v<T>)
    if (of.divisor != 1) {
      const T by = static_cast<T>(of.divisor);
      return write_block<T>(of, begin, n, [=](int64_t i) { return combine<R, T>(a[i], b[i]) / by; });
    }
  write_block<T>(of, begin, n, [=](int64_t i) { return combine<R, T>(a[i], b[i]); });
}

/// Reduces one block of a 16-bit type, accumulated in float32.
template <Reduction R, class H>
[[gnu::always_inline]] inline void reduce_half_block(const Operands& of, int64_t begin, int64_t n) {
  float sum[kBlock];
  combine_widened<R>(sum, of.in<H>(0, begin), of.in<H>(1, begin), n);
  for (size_t k = 2; k < of.inputs.size(); ++k) combine_widened<R>(sum, sum, of.in<H>(k, begin), n);
  const float by = static_cast<float>(of.divisor);
  const float* in = sum;
  using Bits = decltype(H::bits);  // a loop that writes an H is not vectorised
  if (of.divisor != 1)
    write_block<Bits>(of, begin, n, [=](int64_t i) { return narrow(in[i] / by, H{}).bits; });
  else
    write_block<Bits>(of, begin, n, [=](int64_t i) { return narrow(in[i], H{}).bits; });
}

template <Reduction R, class T>
[[gnu::always_inline]] inline void reduce_typed(const Operands& of, int64_t count) {
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
      reduce_half_block<R, T>(of, begin, n);
    else
      reduce_block<R, T>(of, begin, n);
  }
}

template <Reduction R>
[[gnu::always_inline]] inline void reduce_integers(const Arguments& a) {
  switch (a.type) {
    case ElementType::uint8:
      return reduce_typed<R, uint8_t>({a.outs, a.inputs}, a.count);
    case ElementType::int32:
      return reduce_typed<R, int32_t>({a.outs, a.inputs}, a.count);
    case ElementType::int64:
      return reduce_typed<R, int64_t>({a.outs, a.inputs}, a.count);
    default:
      return;
  }
}

template <Reduction R>
[[gnu::always_inline]] inline void reduce_numbers(const Arguments& a, int64_t divisor = 1) {
  switch (a.type) {
    case ElementType::float16:
      return reduce_typed<R, Float16>({a.outs, a.inputs, divisor}, a.count);
    case ElementType::bfloat16:
      return reduce_typed<R, BFloat16>({a.outs, a.inputs, divisor}, a.count);
    case ElementType::float32:
      return reduce_typed<R, float>({a.outs, a.inputs, divisor}, a.count);
    case ElementType::float64:
      return reduce_typed<R, double>({a.outs, a.inputs, divisor}, a.count);
    default:
      return reduce_integers<R>(a);
  }
}

/// Bitwise reductions do not depend on the element type: all types are reduced as bytes.
template <Reduction R>
[[gnu::always_inline]] inline void reduce_bits(const Arguments& a) {
  reduce_typed<R, uint8_t>({a.outs, a.inputs}, a.count * size_of(a.type));
}

/// The bitwise reduction that this one is on the single bit of a bool.
[[gnu::always_inline]] inline Reduction on_bool(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::max:
    case Reduction::logical_or:
      return Reduction::bit_or;
    case Reduction::product:
    case Reduction::min:
    case Reduction::logical_and:
      return Reduction::bit_and;
    case Reduction::logical_xor:
      return Reduction::bit_xor;
    default:
      return reduction;
  }
}

[[gnu::always_inline]] inline void reduce(const Arguments& a) {
  switch (a.type == ElementType::boolean ? on_bool(a.reduction) : a.reduction) {
    case Reduction::sum:
    case Reduction::average:
      return reduce_numbers<Reduction::sum>(
          a, a.reduction == Reduction::average ? static_cast<int64_t>(a.inputs.size()) : 1);
    case Reduction::product:
      return reduce_numbers<Reduction::product>(a);
    case Reduction::min:
      return reduce_numbers<Reduction::min>(a);
    case Reduction::max:
      return reduce_numbers<Reduction::max>(a);
    case Reduction::bit_and:
      return reduce_bits<Reduction::bit_and>(a);
    case Reduction::bit_or:
      return reduce_bits<Reduction::bit_or>(a);
    case Reduction::bit_xor:
      return reduce_bits<Reduction::bit_xor>(a);
    case Reduction::logical_and:
      return reduce_integers<Reduction::logical_and>(a);
    case Reduction::logical_or:
      return reduce_integers<Reduction::logical_or>(a);
    case Reduction::logical_xor:
      return reduce_integers<Reduction::logical_xor>(a);
  }
}

[[gnu::flatten]] void reduce_baseline(const Arguments& arguments) {
  reduce(arguments);
}

#if defined(__x86_64__)

[[gnu::flatten, gnu::target("avx2")]] void reduce_avx2(const Arguments& arguments) {
  reduce(arguments);
}

#ifdef __clang__
#define ADJOIN_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"
#else  // which would use half of a register
#define ADJOIN_AVX512 "avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#endif
[[gnu::flatten, gnu::target(ADJOIN_AVX512)]] void reduce_avx512(const Arguments& arguments) {
  reduce(arguments);
}

#endif

}  // namespace

// No ifunc, because resolvers run before the sanitizers are set up.
void reduce_with(InstructionSet set, const Arguments& arguments) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return reduce_avx512(arguments);
  if (set == InstructionSet::avx2) return reduce_avx2(arguments);
#endif
  static_cast<void>(set);
  reduce_baseline(arguments);
}

}  // namespace adjoin
