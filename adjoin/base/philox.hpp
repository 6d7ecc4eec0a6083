#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace adjoin {

/// Four random words for a counter and a key: a pure function, so any worker can compute any part of a stream.
/// Source: Philox4x32-10, Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

/// The key of a named stream: equal for equal seed and name, on every machine.
PhiloxKey philox_key(uint64_t seed, std::string_view name);

/// Random 16-bit words of columns [first_column, first_column + out.size()) of the row that three coordinates name. A
/// word depends on its own coordinates alone: block column / 8 of the stream holds eight of them.
/// Cost: one Philox block for eight words, vectorised.
void philox_row(std::span<uint16_t> out, PhiloxKey key, uint32_t first_column, uint32_t row, uint32_t plane,
                uint32_t volume);

/// Standard normal numbers first, first + 1, … of the stream, by Box and Muller's transform in double precision.
/// A number depends on its own index alone.
void philox_normal(std::span<double> out, PhiloxKey key, int64_t first);

}  // namespace adjoin
