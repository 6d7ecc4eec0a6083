#include "adjoin/nn/dropped_elements.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <type_traits>

#include "adjoin/base/half.hpp"

namespace adjoin::nn {
namespace {

// Uses the conversions of base/half.hpp, which compilers can vectorise; those of c10's types contain branches.

template <class Real, class T>
[[gnu::always_inline]] inline Real to_real(const T& x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return to_float(BFloat16{x.x});
  else if constexpr (std::is_same_v<T, c10::Half>)
    return to_float(Float16{x.x});
  else
    return static_cast<Real>(x);
}

template <class T, class Real>
[[gnu::always_inline]] inline T from_real(Real x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return T(to_bfloat16(x).bits, T::from_bits());
  else if constexpr (std::is_same_v<T, c10::Half>)
    return T(to_float16(x).bits, T::from_bits());
  else
    return static_cast<T>(x);
}

template <class Out, class In>
[[gnu::always_inline]] inline void drop_with(const DroppedElements& row, const In* in, const Out* base, Out* out) {
  using Real = std::conditional_t<std::is_same_v<Out, double>, double, float>;
  const auto factor = static_cast<Real>(row.factor);
  const auto kept = [&](int64_t i) {
    const Real x = to_real<Real>(in[i]) * factor;
    return row.words[i] < row.threshold ? Real(0) : x;
  };
  if (base)
    for (int64_t i = 0; i < row.size; ++i) out[i] = from_real<Out>(to_real<Real>(base[i]) + kept(i));
  else
    for (int64_t i = 0; i < row.size; ++i) out[i] = from_real<Out>(kept(i));
}

#if defined(__x86_64__)
template <class Out, class In>
[[gnu::flatten, gnu::target("avx2,fma")]] void drop_avx2(const DroppedElements& row, const In* in, const Out* base,
                                                         Out* out) {
  drop_with(row, in, base, out);
}
template <class Out, class In>
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void drop_avx512(const DroppedElements& row,
                                                                                     const In* in, const Out* base,
                                                                                     Out* out) {
  drop_with(row, in, base, out);
}
#endif

}  // namespace

template <class Out, class In>
void drop_elements(InstructionSet set, const DroppedElements& row, const In* in, const Out* base, Out* out) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return drop_avx512(row, in, base, out);
  if (set == InstructionSet::avx2) return drop_avx2(row, in, base, out);
#endif
  drop_with(row, in, base, out);
}

template void drop_elements(InstructionSet, const DroppedElements&, const double*, const double*, double*);
template void drop_elements(InstructionSet, const DroppedElements&, const float*, const float*, float*);
template void drop_elements(InstructionSet, const DroppedElements&, const c10::BFloat16*, const c10::BFloat16*,
                            c10::BFloat16*);
template void drop_elements(InstructionSet, const DroppedElements&, const c10::Half*, const c10::Half*, c10::Half*);
template void drop_elements(InstructionSet, const DroppedElements&, const c10::BFloat16*, const float*, float*);
template void drop_elements(InstructionSet, const DroppedElements&, const c10::Half*, const float*, float*);
template void drop_elements(InstructionSet, const DroppedElements&, const float*, const c10::BFloat16*, c10::BFloat16*);
template void drop_elements(InstructionSet, const DroppedElements&, const float*, const c10::Half*, c10::Half*);

}  // namespace adjoin::nn
