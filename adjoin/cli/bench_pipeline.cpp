#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/cli/schedule_options.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/bench/benches.hpp"

namespace adjoin::cli {
namespace {

constexpr double kMostMilliseconds = 1e6;
constexpr int64_t kMostMeasurements = 1000;

struct BenchPipelineCommand : ScheduleOptions {
  train::BenchPipelineOptions bench;
  bool json = false;
};

void run_bench_pipeline(const BenchPipelineCommand& command) {
  ScheduleOptions options = command;
  check_costs(options, kMostMilliseconds);
  if (options.ranks) check_ranks(*options.ranks);
  if (!options.ranks && !pipeline::names_a_file(options.schedule) && started_by_mpi()) options.ranks = mpi_job_size();
  constexpr double kSecond = 1000;
  train::BenchPipelineOptions bench = command.bench;
  bench.schedule = schedule_from(options).schedule;
  bench.costs = {options.costs.forward / kSecond, options.costs.input / kSecond, options.costs.weight / kSecond};
  const train::BenchPipelineResult result = train::bench_pipeline(bench);
  Report report{command.json};
  report.json = {{"schedule", options.schedule},
                 {"ranks", bench.schedule.ranks()},
                 {"stages", bench.schedule.stages},
                 {"microbatches", bench.schedule.micro_batches},
                 {"measured_seconds", result.measured},
                 {"simulated_seconds", result.simulated},
                 {"ratio", nullptr}};
  report.text << title_of(options.schedule, bench.schedule)
              << formatted("\nmeasured   %.4f s\nsimulated  %.4f s\n", result.measured, result.simulated);
  if (result.simulated > 0) {
    const double ratio = result.measured / result.simulated;
    report.json["ratio"] = ratio;
    report.text << "ratio      " << fixed(ratio, 3) << '\n';
  }
  report.print();
}

}  // namespace

void add_bench_pipeline(Program& program, CLI::App& bench) {
  auto options = std::make_shared<BenchPipelineCommand>();
  options->costs = {20, 20, 20};
  CLI::App* command = add_command(program, bench, "pipeline",
                                  "Time a schedule on stages that sleep, and compare it with its simulation",
                                  [options] { run_bench_pipeline(*options); });
  add_schedule_options(program, *command, *options, "milliseconds of sleep");
  add_options(
      program, *command,
      {number("--times", options->bench.times, "Measurements, of which the median is reported", 1, kMostMeasurements),
       host_memory_row(options->bench.host_memory),
       json_row(options->json,
                "object: schedule, ranks, stages, microbatches, measured_seconds, "
                "simulated_seconds, ratio (null where nothing sleeps)")});
  command->footer(
      "A rank is a thread or, under mpirun, a process of the job; --ranks is then the size of the job unless given. "
      "Messages are small. In the simulation transfers take no time.");
}

}  // namespace adjoin::cli
