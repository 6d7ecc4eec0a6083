#if defined(__x86_64__)

#include "adjoin/comm/kernels/loops.hpp"

namespace adjoin::kernels {

[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void reduce_avx512(
    const Arguments& arguments) {
  reduce(arguments);
}

}  // namespace adjoin::kernels

#endif
