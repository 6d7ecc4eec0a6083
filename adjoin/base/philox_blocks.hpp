#pragma once

#include "adjoin/base/instruction_set.hpp"
#include "adjoin/base/philox.hpp"

namespace adjoin {

// Philox4x32-10: the constants of the paper's table 2.
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9, kPhiloxWeyl1 = 0xBB67AE85;
inline constexpr int kPhiloxRounds = 10, kPhiloxWords = 4;

/// Blocks that philox_blocks computes side by side.
inline constexpr int kPhiloxLanes = 16;

/// The kPhiloxWords words of each of the blocks counter, counter + {1, 0, 0, 0}, … counter + {kPhiloxLanes - 1, 0, 0, 0}, one
/// block after another. `set` must be supported.
void philox_blocks(InstructionSet set, uint32_t* out, const PhiloxCounter& counter, const PhiloxKey& key);

}  // namespace adjoin
