#include "adjoin/nn/sequence/dropped_rows.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <numbers>
#include <type_traits>

namespace adjoin::nn {
namespace {

/// One number of type T in each lane of a register of `Bytes`, with the compiler's own vector types.
template <class T, int Bytes>
struct Lanes {
  using Integer = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static constexpr int kCount = Bytes / sizeof(T);
  typedef T Reals [[gnu::vector_size(Bytes)]];
  typedef Integer Integers [[gnu::vector_size(Bytes)]];
  typedef std::make_signed_t<Integer> Signed [[gnu::vector_size(Bytes)]];
  typedef uint16_t Words [[gnu::vector_size(2 * kCount)]];
};

/// 1/0!, 1/1!, …
template <class T, int Count>
constexpr std::array<T, Count> inverse_factorials() {
  std::array<T, Count> values{1};
  for (size_t k = 1; k < Count; ++k) values[k] = values[k - 1] / static_cast<T>(k);
  return values;
}

/// exp(x) for x up to 1: 2^n exp(r) with an integer n and |r| at most ln(2)/2, by a Taylor series whose error is below the
/// rounding. Results below the smallest normal number are 0, as for -infinity.
template <class T, int Bytes>
[[gnu::always_inline]] inline void exponentiate(typename Lanes<T, Bytes>::Reals& x) {
  using Reals = typename Lanes<T, Bytes>::Reals;
  using Integers = typename Lanes<T, Bytes>::Integers;
  constexpr bool is_float = std::is_same_v<T, float>;
  constexpr int kMantissa = std::numeric_limits<T>::digits - 1, kBias = std::numeric_limits<T>::max_exponent - 1;
  constexpr T kLog2E = T(std::numbers::log2e);
  // ln(2) in two parts; the first has so few digits that its product with n is exact.
  constexpr T kLn2 = is_float ? T(0.693359375) : T(6.93145751953125e-1);
  constexpr T kRestOfLn2 = is_float ? T(-2.12194440e-4) : T(1.42860682030941723212e-6);
  constexpr T kLeast = is_float ? T(-88) : T(-709);  // there n is -kBias, and 2^n becomes 0
  constexpr T kWhole = T(typename Lanes<T, Bytes>::Integer{3} << (kMantissa - 1));  // adding it rounds to integers
  constexpr int kDegree = is_float ? 6 : 12;
  constexpr auto kSeries = inverse_factorials<T, kDegree + 1>();

  x = x < kLeast ? Reals{} + kLeast : x;
  const Reals shifted = x * kLog2E + kWhole;
  const Reals n = shifted - kWhole;
  const Reals r = (x - n * kLn2) - n * kRestOfLn2;
  Reals sum = Reals{} + kSeries[kDegree];
#pragma GCC unroll 16
  for (int k = kDegree - 1; k >= 0; --k) sum = sum * r + kSeries[k];
  const Integers exponent = (reinterpret_cast<Integers>(shifted) + kBias) << kMantissa;  // n is in the last bits
  x = sum * reinterpret_cast<Reals>(exponent);
}

/// Calls `pass(place, count)` for the places 0, kCount, … of a row; `count` is kCount except in a shorter last step.
template <int kCount, class Pass>
[[gnu::always_inline]] inline void in_steps(int64_t size, const Pass& pass) {
  int64_t i = 0;
  for (; i + kCount <= size; i += kCount) pass(i, kCount);
  if (i < size) pass(i, static_cast<int>(size - i));
}

template <class Vector, class T>
[[gnu::always_inline]] inline void load(Vector& to, const T* from, int count) {
  constexpr int kCount = sizeof(Vector) / sizeof(T);
  if (count == kCount)
    std::memcpy(&to, from, sizeof to);
  else
    for (int i = 0; i < count; ++i) to[i] = from[i];
}

template <class Vector, class T>
[[gnu::always_inline]] inline void store(T* to, const Vector& from, int count) {
  if (count == sizeof(Vector) / sizeof(T))
    std::memcpy(to, &from, sizeof from);
  else
    for (int i = 0; i < count; ++i) to[i] = from[i];
}

/// Sets lanes with words below the threshold to 0.
template <class T, int Bytes>
[[gnu::always_inline]] inline void drop(typename Lanes<T, Bytes>::Reals& x, const DroppedRow& row, int64_t i,
                                        int count) {
  using Signed = typename Lanes<T, Bytes>::Signed;
  typename Lanes<T, Bytes>::Words words{};
  load(words, row.words + i, count);
  x = __builtin_convertvector(words, Signed) < row.threshold ? typename Lanes<T, Bytes>::Reals{} : x;
}

template <class T, int Bytes>
[[gnu::always_inline]] inline RowSum<T> exponentials_with(const DroppedRow& row, T* scores) {
  using Reals = typename Lanes<T, Bytes>::Reals;
  constexpr int kCount = Lanes<T, Bytes>::kCount;
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  Reals most = Reals{} + kHidden;
  in_steps<kCount>(row.size, [&](int64_t i, int count) {
    Reals x = Reals{} + scores[i];  // also in the lanes beyond the end
    load(x, scores + i, count);
    most = x > most ? x : most;
  });
  T largest = kHidden;
  for (int lane = 0; lane < kCount; ++lane) largest = most[lane] > largest ? most[lane] : largest;
  const T shift = largest == kHidden ? T(0) : largest;  // where all are hidden
  Reals sums{};
  T rest = 0;
  in_steps<kCount>(row.size, [&](int64_t i, int count) {
    Reals x{};
    load(x, scores + i, count);
    x -= shift;
    exponentiate<T, Bytes>(x);
    if (count == kCount)
      sums += x;
    else
      for (int lane = 0; lane < count; ++lane) rest += x[lane];
    drop<T, Bytes>(x, row, i, count);
    store(scores + i, x, count);
  });
  for (int lane = 0; lane < kCount; ++lane) rest += sums[lane];
  return {largest, rest};
}

template <class T, int Bytes>
[[gnu::always_inline]] inline void gradients_with(const DroppedRow& row, const RowGradient<T>& at, T* scores,
                                                  T* gradients) {
  using Reals = typename Lanes<T, Bytes>::Reals;
  in_steps<Lanes<T, Bytes>::kCount>(row.size, [&](int64_t i, int count) {
    Reals x{}, gradient{}, kept = Reals{} + at.factor;
    load(x, scores + i, count);
    load(gradient, gradients + i, count);
    drop<T, Bytes>(kept, row, i, count);
    x -= at.log_sum;
    exponentiate<T, Bytes>(x);
    gradient = x * (gradient * kept - at.product);
    x *= kept;
    store(scores + i, x, count);
    store(gradients + i, gradient, count);
  });
}

#if defined(__x86_64__)
#define ADJOIN_AVX2 gnu::flatten, gnu::target("avx2,fma")
#define ADJOIN_AVX512 gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")

template <class T>
[[ADJOIN_AVX2]] RowSum<T> exponentials_avx2(const DroppedRow& row, T* scores) {
  return exponentials_with<T, 32>(row, scores);
}
template <class T>
[[ADJOIN_AVX512]] RowSum<T> exponentials_avx512(const DroppedRow& row, T* scores) {
  return exponentials_with<T, 64>(row, scores);
}
template <class T>
[[ADJOIN_AVX2]] void gradients_avx2(const DroppedRow& row, const RowGradient<T>& at, T* scores, T* gradients) {
  gradients_with<T, 32>(row, at, scores, gradients);
}
template <class T>
[[ADJOIN_AVX512]] void gradients_avx512(const DroppedRow& row, const RowGradient<T>& at, T* scores, T* gradients) {
  gradients_with<T, 64>(row, at, scores, gradients);
}
#endif

}  // namespace

template <class T>
RowSum<T> exponentials_of(InstructionSet set, const DroppedRow& row, T* scores) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return exponentials_avx512(row, scores);
  if (set == InstructionSet::avx2) return exponentials_avx2(row, scores);
#endif
  return exponentials_with<T, 16>(row, scores);
}

template <class T>
void gradients_of(InstructionSet set, const DroppedRow& row, const RowGradient<T>& at, T* scores, T* gradients) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return gradients_avx512(row, at, scores, gradients);
  if (set == InstructionSet::avx2) return gradients_avx2(row, at, scores, gradients);
#endif
  gradients_with<T, 16>(row, at, scores, gradients);
}

template RowSum<float> exponentials_of(InstructionSet, const DroppedRow&, float*);
template RowSum<double> exponentials_of(InstructionSet, const DroppedRow&, double*);
template void gradients_of(InstructionSet, const DroppedRow&, const RowGradient<float>&, float*, float*);
template void gradients_of(InstructionSet, const DroppedRow&, const RowGradient<double>&, double*, double*);

}  // namespace adjoin::nn
