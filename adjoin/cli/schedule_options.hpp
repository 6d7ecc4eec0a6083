#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "adjoin/cli/options.hpp"
#include "adjoin/pipeline/simulation.hpp"

namespace adjoin::cli {

/// The schedule of a pipeline that a command is given, and what its actions cost a rank.
struct ScheduleOptions {
  std::string schedule;
  std::optional<int64_t> ranks, micro_batches, chunks;
  pipeline::StageCosts costs;
};

/// Adds SCHEDULE, --ranks, --microbatches, --chunks, --forward, --backward and --weight. `unit` is the unit of the costs.
void add_schedule_options(Program& program, CLI::App& command, ScheduleOptions& options, const std::string& unit);

/// Throws: InvalidArgument such as "--forward is 1e15, expected 0 to 1e+12"; also for NaN.
void check_cost(const char* option, double cost, double most);
void check_costs(const ScheduleOptions& options, double most);

/// A schedule and, if it has a name, the stages of each rank.
struct GivenSchedule {
  pipeline::Schedule schedule;
  std::optional<int> chunks;
};

/// Throws: InvalidArgument, with the option or the file, as pipeline::make_schedule and read_schedule do
GivenSchedule schedule_from(const ScheduleOptions& options);

/// "zb-h1 on 4 ranks, 8 micro-batches"
std::string title_of(const std::string& name, const pipeline::Schedule& schedule);

}  // namespace adjoin::cli
