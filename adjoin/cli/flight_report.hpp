#pragma once

#include <cstddef>
#include <filesystem>

#include "adjoin/lab/flight_reading.hpp"

namespace adjoin::cli {

/// Prints how a run ended, where its ranks diverge, and the last `last` calls of each rank, in 80 columns.
void print_flight(const std::filesystem::path& run, const lab::JobRecord& job, size_t last);
void print_flight_json(const std::filesystem::path& run, const lab::JobRecord& job, size_t last);

}  // namespace adjoin::cli
