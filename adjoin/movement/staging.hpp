#pragma once

#include <ATen/core/Tensor.h>

namespace adjoin {

/// Memory that is kept from one use of a prepared movement to the next.
class Staging {
 public:
  /// `count` elements that nobody else uses until the next call; their values are undefined.
  at::Tensor take(int64_t count, const at::TensorOptions& options);
  /// x itself, or a contiguous copy of it in this memory.
  at::Tensor contiguous(const at::Tensor& x);

 private:
  at::Tensor memory_;
};

}  // namespace adjoin
