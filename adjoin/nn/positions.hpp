#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/movement/step_context.hpp"

namespace adjoin::nn {

/// Which token of its sample each row is. Shape: [rows] int64
/// Throws: InvalidArgument where the context describes another number of rows
at::Tensor token_numbers(const StepContext& context, int64_t rows);

/// Rotary positions: features i and i + size / 2 of a head are turned, as a pair, by the angle token * base^(-2 i / size), so
/// that the product of a query and a key depends on the distance of their tokens alone.
/// Shape:  x [rows, heads, size] with an even size, tokens [rows] -> as x
/// Adjoint: the pairs turned back
/// Cost:   a sine and a cosine for each row and pair, in float64, and one pass over x each way
/// Source: Su et al., "RoFormer", arXiv 2104.09864, with the pairs of GPT-NeoX
at::Tensor rotary(const at::Tensor& x, const at::Tensor& tokens, double base);

}  // namespace adjoin::nn
