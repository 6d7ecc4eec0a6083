#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/base/buffer.hpp"

namespace adjoin {

/// The element type in messages of a tensor's dtype.
/// Throws: InvalidArgument for a dtype that no backend moves (complex, quantised, …).
ElementType element_type(at::ScalarType type);
at::ScalarType scalar_type(ElementType type);

/// Where the memory of a tensor is.
/// Throws: InvalidArgument for a tensor without memory, and for a device that no call moves
Device buffer_device(const at::Tensor& x);

/// Checks that the memory of x contains its elements, at its strides: x is dense, on a device with memory, and no view that negates or
/// conjugates what it reads. What reads or writes a tensor's memory itself checks this first, or calls `plain`.
/// Throws: InvalidArgument, which begins with `who`, for another tensor
void check_plain(const char* who, const at::Tensor& x);

/// x itself, or a copy of a view that negates or conjugates, so that its memory contains its elements. Differentiable.
/// Throws: InvalidArgument, which begins with `who`, for a tensor that is not dense or has no memory
/// Cost:   without a copy, one test of x's dispatch keys
at::Tensor plain(const char* who, const at::Tensor& x);

/// A hash of the elements' bytes, in order.
/// Throws: InvalidArgument as plain
int64_t hash_of_bytes(const char* who, const at::Tensor& x);

/// A buffer over the elements of a contiguous tensor, which must outlive it: `world.all_reduce(buffer(tensor))`.
/// Throws: InvalidArgument for a tensor that is not contiguous, or as check_plain.
Buffer buffer(const at::Tensor& tensor);

/// The same; for a complex tensor, over the real and imaginary parts, which backends add and move alike.
Buffer buffer_of_reals(const at::Tensor& tensor);

}  // namespace adjoin
