#include "adjoin/cli/pipeline_report.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/pipeline/picture.hpp"
#include "adjoin/train/storage/output_file.hpp"
#include "adjoin/train/storage/read_text.hpp"

namespace adjoin::cli {
namespace {

constexpr int64_t kUsualRanks = 4, kUsualMicroBatches = 8, kUsualChunks = 2;
constexpr uintmax_t kMostBytes = uintmax_t{1} << 29;  // of a table with as many actions and cells as there may be
constexpr double kMostCostGiven = 1e12;

struct PipelineOptions {
  std::string schedule, svg, csv;
  std::optional<int64_t> ranks, micro_batches, chunks;
  pipeline::StageCosts costs;
  double transfer = 0;
  bool json = false;
};

void check_cost(const char* option, double cost) {
  require(cost >= 0 && cost <= kMostCostGiven, [&] {  // NaN is refused too
    return std::string(option) + " is " + shortest_text(cost) + ", expected 0 to " + shortest_text(kMostCostGiven);
  });
}

void check_costs(const PipelineOptions& options) {
  check_cost("--forward", options.costs.forward);
  check_cost("--backward", options.costs.input);
  check_cost("--weight", options.costs.weight);
  check_cost("--transfer", options.transfer);
}

/// A number of ranks, micro-batches or chunks.
std::optional<int> count_of(const std::optional<int64_t>& given, const char* option) {
  if (!given) return {};
  check_range(option, *given, 1, pipeline::kMostActions / 2);
  return static_cast<int>(*given);
}

pipeline::Schedule schedule_from_file(const PipelineOptions& options) {
  require(!options.chunks, "--chunks has no effect with a file, which says what stages each rank has");
  const auto ranks = count_of(options.ranks, "--ranks"),
             micro_batches = count_of(options.micro_batches, "--microbatches");
  std::error_code none;
  const uintmax_t bytes = std::filesystem::file_size(options.schedule, none);
  require(none || bytes <= kMostBytes, [&] { return options.schedule + ": the file is too large for a schedule"; });
  const std::string text = train::read_text(options.schedule);
  try {
    return pipeline::read_schedule(text, ranks, micro_batches);
  } catch (...) {
    rethrow_led_by(options.schedule + ": ", std::current_exception());
  }
}

bool is_file(const std::string& schedule) {
  return schedule.ends_with(".csv");
}

void check_name(const std::string& name) {
  const auto known = pipeline::schedule_names();
  require(std::ranges::find(known, name) != known.end(), [&] {
    return (name.empty() ? "a schedule is needed" : "unknown schedule \"" + name + "\"") + ": " + joined(known) +
           " or a file whose name ends in .csv";
  });
}

PipelineReport report_of(const PipelineOptions& options) {
  check_costs(options);
  PipelineReport report{.name = options.schedule, .costs_of_rank = options.costs, .transfer = options.transfer};
  if (is_file(options.schedule)) {
    report.schedule = schedule_from_file(options);
  } else {
    check_name(options.schedule);
    const bool has_chunks = options.schedule == "interleaved";
    require(has_chunks || !options.chunks, [&] { return "--chunks has no effect on " + options.schedule; });
    const int ranks = count_of(options.ranks.value_or(kUsualRanks), "--ranks").value();
    const int micro_batches = count_of(options.micro_batches.value_or(kUsualMicroBatches), "--microbatches").value();
    const int chunks = has_chunks ? count_of(options.chunks.value_or(kUsualChunks), "--chunks").value() : 1;
    report.schedule = pipeline::make_schedule(options.schedule, ranks, micro_batches, chunks);
    if (options.transfer == 0)
      report.formula = pipeline::bubble_formula(options.schedule, ranks, micro_batches, chunks, options.costs);
  }
  report.costs = pipeline::equal_costs(report.schedule, options.costs, options.transfer);
  report.timeline = pipeline::simulate(report.schedule, report.costs);
  return report;
}

/// Writes both files or none.
void write_files(const PipelineOptions& options, const PipelineReport& report) {
  const std::string svg =
      options.svg.empty() ? "" : pipeline::svg_of(report.schedule, report.costs, report.timeline, title_of(report));
  const std::string csv = options.csv.empty() ? "" : pipeline::to_csv(report.schedule);
  std::optional<train::AtomicFile> svg_file, csv_file;
  if (!options.svg.empty()) svg_file.emplace(options.svg).file().write(svg);
  if (!options.csv.empty()) csv_file.emplace(options.csv).file().write(csv);
  if (svg_file) svg_file->publish();
  if (csv_file) csv_file->publish();
}

void run_pipeline(const PipelineOptions& options) {
  if (!prints()) return;  // of an MPI job, rank 0 alone
  const PipelineReport report = report_of(options);
  write_files(options, report);
  if (options.json)
    print_pipeline_json(report);
  else
    print_pipeline(report);
}

}  // namespace

void add_pipeline(Program& program) {
  auto options = std::make_shared<PipelineOptions>();
  CLI::App* command = add_command(program, program.app, "pipeline",
                                  "Show when the ranks of a pipeline do what, and how long they are idle",
                                  [options] { run_pipeline(*options); });
  add_text(
      *command, "schedule", options->schedule, "SCHEDULE",
      "gpipe, 1f1b, interleaved, zb-h1, or a FILE.csv: a line a rank, cells as in 0F3 (stage, action, micro-batch)");
  add_number(*command, "--ranks", options->ranks, "Ranks of the pipeline [4; those of the file]");
  add_number(*command, "--microbatches", options->micro_batches, "Micro-batches of a step [8; those of the file]");
  add_number(*command, "--chunks", options->chunks, "Stages of each rank, with interleaved alone [2]");
  add_number(*command, "--forward", options->costs.forward,
             "What a micro-batch costs a rank in the forward passes of all of its stages, in any unit [1]");
  add_number(*command, "--backward", options->costs.input, "… in the gradients of the inputs of its stages [1]");
  add_number(*command, "--weight", options->costs.weight, "… in the gradients of the weights of its stages [1]");
  add_number(*command, "--transfer", options->transfer,
             "What it costs to bring a result to another rank, during which both compute on [0]");
  add_text(*command, "--svg", options->svg, "FILE", "Draw it, up to 20000 actions");
  add_text(*command, "--csv", options->csv, "FILE",
           "Write it as a table, which this command, training and PyTorch's pipelines read");
  command->add_flag("--json", options->json,
                    "Print one JSON object: schedule, ranks, stages, microbatches, actions, makespan, bubble, "
                    "bubble_formula (null where none holds), most_in_flight (of each rank) [false]");
}

}  // namespace adjoin::cli
