#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "adjoin/nn/choices.hpp"
#include "adjoin/partition/local_token_rows.hpp"

namespace adjoin::nn {

/// The token number, within its sample, of each of `count` rows. Shape: [rows] int64
/// Throws: InvalidArgument where `rows` does not describe `count` rows
at::Tensor token_numbers(const LocalTokenRows& rows, int64_t count);

/// The angle by which each pair turns from one token to the next. Shape: [pairs] float64
/// Source: Su et al., "RoFormer", arXiv 2104.09864; Chen et al., "Extending context window of large language models via
///         positional interpolation", arXiv 2306.15595; the Llama 3.1 models' own description of their scaling
at::Tensor rotary_speeds(const RotaryOptions& options, int64_t pairs);

/// Rotary positions: features i and i + size / 2 of a head are a pair, turned by token * rotary_speeds(…)[i]. So the product of
/// a query and a key depends only on the distance of their tokens.
/// Shape:  x [rows, heads, size] with an even size, tokens [rows] -> as x
/// Adjoint: the pairs turned back
/// Cost:   a sine and a cosine for each row and pair, in float64, and one pass over x each way
/// Source: Su et al., "RoFormer", arXiv 2104.09864, with the pairs of GPT-NeoX
at::Tensor rotary(const at::Tensor& x, const at::Tensor& tokens, const RotaryOptions& options);
/// The same for the tokens of rows; the angles are computed once for all layers.
at::Tensor rotary(const at::Tensor& x, const LocalTokenRows& rows, const RotaryOptions& options);

}  // namespace adjoin::nn
