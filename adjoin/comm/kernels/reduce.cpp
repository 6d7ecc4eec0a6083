#include "adjoin/comm/kernels/reduce.hpp"

namespace adjoin::kernels {

#if defined(__x86_64__)

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

void reduce_with(InstructionSet, const Arguments& arguments) {
  reduce_baseline(arguments);
}

#endif

}  // namespace adjoin::kernels
