#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "adjoin/cli/options.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/bench/side_by_side.hpp"

namespace adjoin::cli {

/// What every benchmark takes that times distributed work beside one worker's.
struct SideBySideOptions {
  train::SideBySideOptions run;
  int64_t ranks = started_by_mpi() ? mpi_job_size() : 2;
  bool json = false;
};

/// Adds --ranks, --threads-per-rank, --times and --json, which prints `json`.
void add_side_by_side(CLI::App& command, SideBySideOptions& options, const std::string& json = "one JSON object");

/// What the command line asked, checked.
/// Throws: InvalidArgument that names the option
const train::SideBySideOptions& checked_run(SideBySideOptions& options);

/// Adds seconds, ratios and memory to what says what was measured.
void add_measured(nlohmann::ordered_json& row, const train::SideBySide& result);

/// A line for the distributed work, one for one worker's, and one for each rank's memory.
void print_side_by_side(const std::string& what, const train::SideBySide& result);

}  // namespace adjoin::cli
