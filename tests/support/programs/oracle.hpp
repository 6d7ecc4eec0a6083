#pragma once

#include <string>

#include "tests/support/programs/memory.hpp"

namespace adjoin::testing::programs {

/// What is wrong with the memory that `rank` of a group of `size` has after a step; "" where nothing is. Each element is
/// computed from the seed, the ranks and its index, by plain loops that share nothing with the library.
std::string difference(uint64_t seed, const Step& step, int size, int rank, Memory& found);

}  // namespace adjoin::testing::programs
