#pragma once

#include <cstdint>
#include <span>

#include "adjoin/base/buffer.hpp"
#include "adjoin/base/instruction_set.hpp"
#include "adjoin/comm/reduction.hpp"

/// The loops of reductions, compiled for each instruction set. reduce_all_into takes the best of the machine.
namespace adjoin::kernels {

/// A call of reduce_all_into of at least two inputs and at least one output.
struct Arguments {
  ElementType type;
  Reduction reduction;
  std::span<void* const> outs;
  std::span<const void* const> inputs;
  int64_t count;
};

/// Runs the loops for `set`, which is supported.
void reduce_with(InstructionSet set, const Arguments& arguments);

void reduce_baseline(const Arguments& arguments);
#if defined(__x86_64__)
void reduce_avx2(const Arguments& arguments);
void reduce_avx512(const Arguments& arguments);
#endif

}  // namespace adjoin::kernels
