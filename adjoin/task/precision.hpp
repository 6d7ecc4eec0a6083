#pragma once

#include <c10/core/ScalarType.h>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The type of weights, and of all computation except matrix products.
inline at::ScalarType weight_type(Precision precision) {
  return precision == Precision::fp64 ? at::kDouble : at::kFloat;
}

/// The type of matrix products.
inline at::ScalarType product_type(Precision precision) {
  return precision == Precision::bf16   ? at::kBFloat16
         : precision == Precision::fp16 ? at::kHalf
                                        : weight_type(precision);
}

}  // namespace adjoin::train
