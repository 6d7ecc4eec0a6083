#pragma once

#include <cstdint>
#include <span>

#include "adjoin/base/buffer.hpp"
#include "adjoin/comm/reduction.hpp"

/// The instruction sets that the loops of reductions are compiled for. reduce_all_into takes the best of the machine.
namespace adjoin::kernels {

enum class InstructionSet : uint8_t { baseline, avx2, avx512 };

inline constexpr InstructionSet kInstructionSets[] = {InstructionSet::baseline, InstructionSet::avx2,
                                                      InstructionSet::avx512};

/// Whether this machine has it.
bool is_supported(InstructionSet set);

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
