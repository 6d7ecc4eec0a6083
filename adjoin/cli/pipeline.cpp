#include "adjoin/cli/pipeline_report.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/schedule_options.hpp"
#include "adjoin/pipeline/picture.hpp"
#include "adjoin/store/output_file.hpp"

namespace adjoin::cli {
namespace {

constexpr double kMostCostGiven = 1e12;

struct PipelineOptions : ScheduleOptions {
  std::string svg, csv;
  double transfer = 0;
  bool json = false;
};

SimulatedPipeline simulated(const PipelineOptions& options) {
  check_costs(options, kMostCostGiven);
  check_cost("--transfer", options.transfer, kMostCostGiven);
  GivenSchedule given = schedule_from(options);
  SimulatedPipeline pipeline{.name = options.schedule,
                             .schedule = std::move(given.schedule),
                             .costs_of_rank = options.costs,
                             .transfer = options.transfer};
  if (given.chunks && options.transfer == 0)
    pipeline.formula = pipeline::bubble_formula(options.schedule, pipeline.schedule.ranks(),
                                                pipeline.schedule.micro_batches, *given.chunks, options.costs);
  pipeline.costs = pipeline::equal_costs(pipeline.schedule, options.costs, options.transfer);
  pipeline.timeline = pipeline::simulate(pipeline.schedule, pipeline.costs);
  return pipeline;
}

void check_files(const PipelineOptions& options) {
  require(options.csv.empty() || pipeline::names_a_file(options.csv), [&] {
    return "--csv " + options.csv +
           ": expected a name that ends in .csv, because schedules are read only from such files";
  });
  require(options.csv.empty() || options.csv != options.svg,
          [&] { return "--svg and --csv name the same file, " + options.csv; });
}

/// Writes both files or none.
void write_files(const PipelineOptions& options, const SimulatedPipeline& pipeline) {
  const std::string svg = options.svg.empty() ? ""
                                              : pipeline::svg_of(pipeline.schedule, pipeline.costs, pipeline.timeline,
                                                                 title_of(pipeline.name, pipeline.schedule));
  const std::string csv = options.csv.empty() ? "" : pipeline::to_csv(pipeline.schedule);
  std::optional<train::AtomicFile> svg_file, csv_file;
  if (!options.svg.empty()) svg_file.emplace(options.svg).file().write(svg);
  if (!options.csv.empty()) csv_file.emplace(options.csv).file().write(csv);
  if (svg_file) svg_file->publish();
  if (csv_file) csv_file->publish();
}

void run_pipeline(const PipelineOptions& options) {
  if (!prints()) return;  // in an MPI job only rank 0 prints
  check_files(options);
  const SimulatedPipeline pipeline = simulated(options);
  write_files(options, pipeline);
  report_of(pipeline, options.json).print();
}

}  // namespace

void add_pipeline(Program& program) {
  auto options = std::make_shared<PipelineOptions>();
  CLI::App* command = add_command(program, program.app, "pipeline",
                                  "Show when each rank of a pipeline does what, and how long it is idle",
                                  [options] { run_pipeline(*options); });
  add_schedule_options(program, *command, *options, "any unit");
  add_options(
      program, *command,
      {number("--transfer", options->transfer,
              "Cost of sending a result to another rank, while both continue computing"),
       file("--svg", options->svg, "Draw it, up to 20000 actions"),
       file("--csv", options->csv, "Write it as a table, which this command, training and PyTorch's pipelines read"),
       json_row(options->json,
                "object: schedule, ranks, stages, microbatches, actions, makespan, bubble, "
                "bubble_formula (null where none holds), most_in_flight (of each rank)")});
}

}  // namespace adjoin::cli
