#include "adjoin/base/instruction_set.hpp"

namespace adjoin {
namespace {

InstructionSet find_best() {
  InstructionSet best = InstructionSet::baseline;
  for (const InstructionSet set : kInstructionSets)
    if (is_supported(set)) best = set;
  return best;
}

}  // namespace

bool is_supported(InstructionSet set) {
#if defined(__x86_64__)
  switch (set) {
    case InstructionSet::baseline:
      return true;
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case InstructionSet::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return false;
#else
  return set == InstructionSet::baseline;
#endif
}

InstructionSet best_instruction_set() {
  static const InstructionSet best = find_best();
  return best;
}

}  // namespace adjoin
