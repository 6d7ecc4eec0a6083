#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/partition/local_rows.hpp"

namespace adjoin::nn {

/// Which token of its sample each of `count` rows is. Shape: [rows] int64
/// Throws: InvalidArgument where other than `count` rows are described
at::Tensor token_numbers(const LocalRows& rows, int64_t count);

/// Rotary positions: features i and i + size / 2 of a head are turned, as a pair, by the angle token * base^(-2 i / size), so
/// that the product of a query and a key depends on the distance of their tokens alone.
/// Shape:  x [rows, heads, size] with an even size, tokens [rows] -> as x
/// Adjoint: the pairs turned back
/// Cost:   a sine and a cosine for each row and pair, in float64, and one pass over x each way
/// Source: Su et al., "RoFormer", arXiv 2104.09864, with the pairs of GPT-NeoX
at::Tensor rotary(const at::Tensor& x, const at::Tensor& tokens, double base);
/// The same for the tokens of rows, whose angles are made once for all layers.
at::Tensor rotary(const at::Tensor& x, const LocalRows& rows, double base);

}  // namespace adjoin::nn
