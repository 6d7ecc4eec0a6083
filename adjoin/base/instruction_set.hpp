#pragma once

#include <cstdint>

namespace adjoin {

/// The instruction sets that vectorised loops are compiled for.
enum class InstructionSet : uint8_t { baseline, avx2, avx512 };

inline constexpr InstructionSet kInstructionSets[] = {InstructionSet::baseline, InstructionSet::avx2,
                                                      InstructionSet::avx512};

/// Whether this machine supports it.
bool is_supported(InstructionSet set);

/// The widest set that this machine supports.
InstructionSet best_instruction_set();

}  // namespace adjoin
