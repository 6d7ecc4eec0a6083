#include "adjoin/comm/reduction.hpp"

#include <cstring>

#include "adjoin/comm/reduction_kernels.hpp"

namespace adjoin {

namespace {

using Kernel = void (*)(const kernels::Arguments&);

// Chosen by a pointer, not by an ifunc: resolvers run before the sanitizers are set up.
[[gnu::flatten]] void reduce_baseline(const kernels::Arguments& arguments) {
  kernels::reduce(arguments);
}

#if defined(__x86_64__)
[[gnu::flatten, gnu::target("avx2")]] void reduce_avx2(const kernels::Arguments& arguments) {
  kernels::reduce(arguments);
}
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void reduce_avx512(
    const kernels::Arguments& arguments) {
  kernels::reduce(arguments);
}

Kernel best_kernel() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return reduce_avx512;
  return __builtin_cpu_supports("avx2") ? reduce_avx2 : reduce_baseline;
}
#else
Kernel best_kernel() {
  return reduce_baseline;
}
#endif

}  // namespace

std::string_view name(Reduction reduction) {
  constexpr std::string_view names[kReductions] = {"sum", "product", "min", "max"};
  return names[static_cast<int>(reduction)];
}

void reduce_all_into(Buffer out, std::span<const void* const> inputs, Reduction reduction) {
  static const Kernel kernel = best_kernel();
  if (out.count == 0) return;
  if (inputs.size() == 1) {
    std::memmove(out.data, inputs[0], static_cast<size_t>(out.bytes()));
    return;
  }
  kernel({out.type, reduction, out.data, inputs, out.count});
}

void reduce_into(Buffer into, ConstBuffer from, Reduction reduction) {
  const void* inputs[] = {into.data, from.data};
  reduce_all_into(into, inputs, reduction);
}

}  // namespace adjoin
