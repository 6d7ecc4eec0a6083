#pragma once

#include <string>
#include <vector>

#include "adjoin/lab/trace/traced_rank.hpp"

namespace adjoin::lab {

/// The bytes of a trace file.
std::string trace_file(std::vector<TracedRank> ranks);

}  // namespace adjoin::lab
