#pragma once

#include "tests/support/programs/program.hpp"
#include "tests/support/programs/random.hpp"

namespace adjoin::testing::programs {

struct Options {
  int fewest_ranks = 1, most_ranks = 9;
  int fewest_steps = 60, most_steps = 140;
  bool has_streams = true, has_threads = true;
};

/// A program that is right: all collectives and messages on nested groups, on streams and on helper threads.
Program right_program(uint64_t seed, const Options& options = {});

/// A call of any kind on a group of so many ranks, with what it needs drawn.
Step draw_call(Random& random, int size);

/// Whether elements of the type can be reduced so, as adjoin/base/reduction.hpp says it.
bool is_reducible(Reduction reduction, ElementType type);

}  // namespace adjoin::testing::programs
