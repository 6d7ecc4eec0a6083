#pragma once

#include <cstddef>
#include <filesystem>

#include "adjoin/lab/flight_reading.hpp"

namespace adjoin::cli {

/// How a run ended, where its ranks part, and the last calls of each rank, so many of them; in 80 columns.
void print_flight(const std::filesystem::path& run, const lab::JobRecord& job, size_t last);
void print_flight_json(const std::filesystem::path& run, const lab::JobRecord& job, size_t last);

}  // namespace adjoin::cli
