#pragma once

#include <span>
#include <vector>

namespace adjoin::models {

/// How many of a model's segments, in their order, each of so many stages takes, so that the largest cost of a stage is the
/// least possible, and of the cuts that reach it the one with the least sum of squares. Each takes at least one.
/// Throws: InvalidArgument for more stages than segments
/// Cost:   O(stages * segments^2)
std::vector<int> balanced_stages(std::span<const double> costs, int stages);

}  // namespace adjoin::models
