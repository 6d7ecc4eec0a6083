#if defined(__x86_64__)

#include "adjoin/comm/kernels/loops.hpp"

namespace adjoin::kernels {

[[gnu::flatten, gnu::target("avx2")]] void reduce_avx2(const Arguments& arguments) {
  reduce(arguments);
}

}  // namespace adjoin::kernels

#endif
