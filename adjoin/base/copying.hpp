#pragma once

#include <cstdint>

#include "adjoin/base/instruction_set.hpp"

namespace adjoin {

/// Copies unless both are the same place or there is nothing. The two do not overlap otherwise.
using Copy = void (*)(void* to, const void* from, int64_t bytes);

void copy_bytes(void* to, const void* from, int64_t bytes);

/// Writes past the caches, so that memory is not read before it is written. Done on return, for other threads too.
void stream_bytes(void* to, const void* from, int64_t bytes);
/// The same as a part of many: what follows may come to other threads before it, until finish_streaming().
void stream_part(void* to, const void* from, int64_t bytes);
void finish_streaming();
/// stream_part by the stores of `set`, which is supported; stream_part takes the best of the machine.
void stream_with(InstructionSet set, void* to, const void* from, int64_t bytes);

/// The quicker of copy_bytes and stream_bytes where all ranks of this machine together write so many bytes.
Copy copy_for(int64_t bytes_of_all);

}  // namespace adjoin
