#pragma once

#include <cstdint>
#include <optional>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// Steps of a run, counted from 1.
struct StepRange {
  int64_t first = 0, last = 0;
};

/// The steps of a configuration's trace, "3" or "3-5"; none if it has no trace.
/// Throws: InvalidArgument for a text in another form
std::optional<StepRange> traced_steps(const Configuration& configuration);

/// Throws: InvalidArgument where steps are to be traced that a run does not make, which continues after step `taken`
void check_traced_steps(const Configuration& configuration, int64_t taken, int64_t total);

/// Whether the run that a configuration resumes has already made a step that is to be traced.
bool traced_steps_are_past(const Configuration& configuration);

}  // namespace adjoin::train
