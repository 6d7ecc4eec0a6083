#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace adjoin::testing {

/// What a command came to.
struct Outcome {
  std::string text;  // on both outputs
  int code = 0;
  double seconds = 0;
  /// When the text had so many characters.
  struct Arrival {
    double seconds;
    size_t characters;
  };
  std::vector<Arrival> arrivals = {};

  /// When this had been printed; the end where it never was.
  double seconds_until(std::string_view part) const;
};

Outcome run(const std::string& command);

/// Runs the fault program (support/fault_program.cpp) on so many processes under mpirun, out of reach of an mpirun that
/// this test may run under.
Outcome run_job(int ranks, const std::string& arguments, const std::string& environment = "");

}  // namespace adjoin::testing
