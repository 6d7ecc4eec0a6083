#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "adjoin/base/buffer.hpp"

namespace adjoin {

/// How elements of several ranks become one. On bool, sum and max are "or", product and min are "and".
enum class Reduction : uint8_t { sum, product, min, max };

inline constexpr int kReductions = 4;

std::string_view name(Reduction reduction);

/// into[i] = into[i] (op) from[i]. float16 and bfloat16 are combined in float32 and rounded once.
/// A NaN in either operand of min or max gives NaN, so that no layout hides one. Integers wrap around.
/// Cost: one pass, vectorised.
void reduce_into(Buffer into, ConstBuffer from, Reduction reduction);

/// out[i] = inputs[0][i] (op) inputs[1][i] (op) ..., from left to right, for out.count elements of out.type.
/// float16 and bfloat16 are combined in float32 and rounded once, at the end. `out` may be any of the inputs.
/// Cost: one pass over all inputs, vectorised, in blocks that stay in the nearest cache.
void reduce_all_into(Buffer out, std::span<const void* const> inputs, Reduction reduction);

}  // namespace adjoin
