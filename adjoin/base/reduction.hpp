#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "adjoin/base/buffer.hpp"

namespace adjoin {

/// How the elements of several ranks are combined into one.
///
/// average is the sum divided by the number of ranks, for floats only. The bitwise and logical reductions are for integers and
/// bool only; the logical ones give 0 or 1. On bool, sum and max are "or", product and min are "and".
enum class Reduction : uint8_t {
  sum,
  product,
  min,
  max,
  average,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or,
  logical_xor
};

inline constexpr int kReductions = 11;

std::string_view name(Reduction reduction);

constexpr bool is_logical(Reduction reduction) {
  return reduction >= Reduction::logical_and;
}

/// Whether the reduction is defined for elements of this type.
bool is_defined(Reduction reduction, ElementType type);

/// out[i] = inputs[0][i] (op) inputs[1][i] (op) ..., from left to right, for out.count elements of out.type.
/// float16 and bfloat16 are combined in float32 and rounded once, at the end, so that an average overflows in neither.
/// A NaN in any operand of min or max gives NaN, so that no layout hides one. Integers wrap around.
/// `out` may be any of the inputs.
/// Cost: one pass over all inputs, vectorised, in blocks that stay in the nearest cache.
/// Throws: InvalidArgument where the reduction is not defined for the type
void reduce_all_into(Buffer out, std::span<const void* const> inputs, Reduction reduction);

/// The same with the result written to each of `outs`, at least one, in one pass. They do not overlap; each may be an input.
void reduce_all_into(std::span<void* const> outs, ElementType type, int64_t count, std::span<const void* const> inputs,
                     Reduction reduction);

/// into[i] = into[i] (op) from[i]: reduce_all_into for these two inputs.
void reduce_into(Buffer into, ConstBuffer from, Reduction reduction);

/// The reduction to apply to two operands at a time where ranks combine elements in several steps: sum for average, else
/// itself. 16-bit floats are then rounded at each step.
Reduction pairwise_of(Reduction reduction);

/// Turns the result of `pairwise_of(reduction)` over `ranks` ranks into that of `reduction`: divides an average, and turns a
/// logical reduction's operand from a single rank into 0 or 1.
void finish_reduction(Buffer result, Reduction reduction, int64_t ranks);

}  // namespace adjoin
