#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/base/buffer.hpp"

namespace adjoin {

/// The element type in messages of a tensor's dtype.
/// Throws: InvalidArgument for a dtype that no backend moves (complex, quantised, …).
ElementType element_type(at::ScalarType type);
at::ScalarType scalar_type(ElementType type);

/// A buffer over the elements of a contiguous tensor, which must outlive it: `world.all_reduce(buffer(tensor))`.
/// Throws: InvalidArgument for a tensor that is not contiguous.
Buffer buffer(const at::Tensor& tensor);

}  // namespace adjoin
