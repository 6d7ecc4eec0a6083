#pragma once

#include <span>
#include <vector>

namespace adjoin::pipeline {

/// How many of a model's segments, in order, each of `stages` stages takes, at least one each. The largest cost of a stage is
/// as small as possible; of several such cuts the one with the smallest sum of squares is chosen.
/// Throws: InvalidArgument for more stages than segments
/// Cost:   O(stages * segments^2)
std::vector<int> balanced_stages(std::span<const double> costs, int stages);

}  // namespace adjoin::pipeline
