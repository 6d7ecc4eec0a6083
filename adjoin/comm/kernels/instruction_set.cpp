#include "adjoin/comm/kernels/instruction_set.hpp"

namespace adjoin::kernels {

#if defined(__x86_64__)

bool is_supported(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return true;
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2");
    case InstructionSet::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return false;
}

// A switch, not an ifunc: resolvers run before the sanitizers are set up.
void reduce_with(InstructionSet set, const Arguments& arguments) {
  switch (set) {
    case InstructionSet::baseline:
      return reduce_baseline(arguments);
    case InstructionSet::avx2:
      return reduce_avx2(arguments);
    case InstructionSet::avx512:
      return reduce_avx512(arguments);
  }
}

#else

bool is_supported(InstructionSet set) {
  return set == InstructionSet::baseline;
}

void reduce_with(InstructionSet, const Arguments& arguments) {
  reduce_baseline(arguments);
}

#endif

}  // namespace adjoin::kernels
