#pragma once

#include <cstdint>
#include <span>

#include "adjoin/base/instruction_set.hpp"
#include "adjoin/base/reduction.hpp"

namespace adjoin {

/// The arguments of reduce_all_into with at least two inputs and at least one output.
struct ReductionArguments {
  ElementType type;
  Reduction reduction;
  std::span<void* const> outs;
  std::span<const void* const> inputs;
  int64_t count;
};

/// Carries it out with loops compiled for `set`, which must be supported; reduce_all_into uses the best set of the
/// machine.
void reduce_with(InstructionSet set, const ReductionArguments& arguments);

}  // namespace adjoin
