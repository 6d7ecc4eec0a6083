#pragma once

#include <string>

#include "bench/layouts/command.hpp"
#include "tests/cli/program.hpp"

namespace adjoin::test {

/// A run of bench_layouts, on `ranks` of an MPI job unless that is 0.
inline Outcome run_layouts(const std::string& arguments, int ranks = 0) {
  return run(arguments, {.ranks = ranks, .program = ADJOIN_BENCH_LAYOUTS, .commands = bench::add_benches});
}

}  // namespace adjoin::test
