#pragma once

#include <cstdint>

#include "adjoin/base/instruction_set.hpp"

namespace adjoin {

/// Copies `bytes` bytes; does nothing where both addresses are equal or `bytes` is 0. Otherwise the two ranges do not
/// overlap.
using Copy = void (*)(void* to, const void* from, int64_t bytes);

void copy_bytes(void* to, const void* from, int64_t bytes);

/// Writes past the caches, so that the destination is not read before it is written. On return other threads see the
/// data too.
void stream_bytes(void* to, const void* from, int64_t bytes);
/// The same for one part of a larger write: other threads may see later stores before it, until finish_streaming().
void stream_part(void* to, const void* from, int64_t bytes);
void finish_streaming();
/// stream_part with the stores of `set`, which must be supported; stream_part uses the best set of the machine.
void stream_with(InstructionSet set, void* to, const void* from, int64_t bytes);

/// The faster of copy_bytes and stream_bytes where all ranks of this machine together write `bytes_of_all` bytes.
Copy copy_for(int64_t bytes_of_all);

}  // namespace adjoin
