#pragma once

#include <cstdint>
#include <string_view>

#include "adjoin/base/buffer.hpp"

namespace adjoin {

/// How elements of several ranks become one. On bool, sum and max are "or", product and min are "and".
enum class Reduction : uint8_t { sum, product, min, max };

std::string_view name(Reduction reduction);

/// into[i] = into[i] (op) from[i]. float16 and bfloat16 are combined in float32 and rounded once.
/// A NaN in either operand of min or max gives NaN, so that no layout hides one.
/// Cost: one pass, vectorised.
void reduce_into(Buffer into, ConstBuffer from, Reduction reduction);

}  // namespace adjoin
