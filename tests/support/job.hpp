#pragma once

#include <string>

namespace adjoin::testing {

/// What a command came to.
struct Outcome {
  std::string text;  // on both outputs
  int code = 0;
  /// By itself: 124 is the code of what had to be killed.
  bool has_failed() const { return code != 0 && code != 124; }
};

Outcome run(const std::string& command);

/// Runs the fault program (support/fault_program.cpp) on so many processes under mpirun, out of reach of an mpirun that
/// this test may run under. A job that has not ended after 60 s is killed and has the code 124.
Outcome run_job(int ranks, const std::string& arguments, const std::string& environment = "");
/// The same of another program.
Outcome run_job_of(const std::string& program, int ranks, const std::string& arguments,
                   const std::string& environment = "");

}  // namespace adjoin::testing
