#include "adjoin/comm/kernels/loops.hpp"

namespace adjoin::kernels {

[[gnu::flatten]] void reduce_baseline(const Arguments& arguments) {
  reduce(arguments);
}

}  // namespace adjoin::kernels
