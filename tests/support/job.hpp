#pragma once

#include <string>

namespace adjoin::testing {

/// What a command came to.
struct Outcome {
  std::string text;  // on both outputs
  int code = 0;
  double seconds = 0;
};

Outcome run(const std::string& command);

/// Runs the fault program (support/fault_program.cpp) on so many processes under mpirun, out of reach of an mpirun that
/// this test may run under.
Outcome run_job(int ranks, const std::string& arguments, const std::string& environment = "");

}  // namespace adjoin::testing
