#pragma once

#include <cstddef>
#include <filesystem>

#include "adjoin/cli/output.hpp"
#include "adjoin/lab/flight_reading.hpp"

namespace adjoin::cli {

/// How a run ended, where its ranks diverge, and the last `last` calls of each rank, in 80 columns.
Report report_of(const std::filesystem::path& run, const lab::JobRecord& job, size_t last, bool as_json);

}  // namespace adjoin::cli
