#include <memory>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/flight_report.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/lab/flight_reading.hpp"

namespace adjoin::cli {
namespace {

struct FlightOptions {
  std::string run;
  int64_t last = 10;
  bool json = false;
};

void run_flight(const FlightOptions& options) {
  const lab::JobRecord job = lab::read_flight_records(options.run);
  if (!job.of_ranks.empty()) report_of(options.run, job, static_cast<size_t>(options.last), options.json).print();
  flush_output();
  require(job.damage.empty(), [&] { return joined(job.damage, "; "); });
}

}  // namespace

void add_flight(Program& program) {
  auto options = std::make_shared<FlightOptions>();
  add_command(
      program, program.app, "flight",
      "Show the last calls of a training run's ranks, as after a deadlock, an error or a kill: why it ended, where the "
      "calls of a group's ranks differ, and which calls are pending",
      [options] { run_flight(*options); },
      {text("run", options->run, "RUN", "Output folder of a training run", /*is_required=*/true),
       number("--last", options->last, "Calls of each rank that are shown, up to 200", 1, lab::kRecordedCalls),
       json_row(
           options->json,
           "object: run, ranks, outcome (failed, killed, ended, \"goes on\"), failure, last_event, "
           "differences, records (of each rank: rank, host, process, state, calls_made, waits_since, calls), missing, "
           "damage; times are nanoseconds since 1970")});
}

}  // namespace adjoin::cli
