#include "adjoin/cli/schedule_options.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/store/read_text.hpp"

namespace adjoin::cli {
namespace {

constexpr int64_t kUsualRanks = 4, kUsualMicroBatches = 8, kUsualChunks = 2;
constexpr uintmax_t kMostBytes = uintmax_t{1} << 29;  // of a table with the most possible actions and cells

/// A number of ranks, micro-batches or chunks.
std::optional<int> count_of(const std::optional<int64_t>& given, const char* option) {
  if (!given) return {};
  check_range(option, *given, 1, pipeline::kMostActions / 2);
  return static_cast<int>(*given);
}

pipeline::Schedule schedule_from_file(const ScheduleOptions& options) {
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

void check_name(const std::string& name) {
  const auto known = pipeline::schedule_names();
  require(std::ranges::find(known, name) != known.end(), [&] {
    return (name.empty() ? "a schedule is needed: " : "unknown schedule \"" + name + "\", expected one of ") +
           joined(known) + " or a file whose name ends in .csv";
  });
}

}  // namespace

void add_schedule_options(Program& program, CLI::App& command, ScheduleOptions& options, const std::string& unit) {
  add_options(program, command,
              {text("schedule", options.schedule, "SCHEDULE",
                    joined(pipeline::schedule_names()) +
                        ", or a FILE.csv: one line per rank, cells as in 0F3 (stage, action, micro-batch)"),
               number("--ranks", options.ranks, "Ranks of the pipeline [4; those of the file]"),
               number("--microbatches", options.micro_batches, "Micro-batches of a step [8; those of the file]"),
               number("--chunks", options.chunks, "Stages of each rank, only with interleaved [2]"),
               number("--forward", options.costs.forward,
                      "Cost of a micro-batch for a rank in the forward passes of all of its stages, in " + unit),
               number("--backward", options.costs.input, "… in the gradients of the inputs of its stages"),
               number("--weight", options.costs.weight, "… in the gradients of the weights of its stages")});
}

void check_cost(const char* option, double cost, double most) {
  require(cost >= 0 && cost <= most, [&] {  // a NaN fails too
    return std::string(option) + " is " + shortest_text(cost) + ", expected 0 to " + shortest_text(most);
  });
}

void check_costs(const ScheduleOptions& options, double most) {
  check_cost("--forward", options.costs.forward, most);
  check_cost("--backward", options.costs.input, most);
  check_cost("--weight", options.costs.weight, most);
}

GivenSchedule schedule_from(const ScheduleOptions& options) {
  if (pipeline::names_a_file(options.schedule)) return {schedule_from_file(options), {}};
  check_name(options.schedule);
  const bool has_chunks = pipeline::has_chunks(options.schedule);
  require(has_chunks || !options.chunks, [&] { return "--chunks has no effect on " + options.schedule; });
  const int ranks = count_of(options.ranks.value_or(kUsualRanks), "--ranks").value();
  const int micro_batches = count_of(options.micro_batches.value_or(kUsualMicroBatches), "--microbatches").value();
  const int chunks = has_chunks ? count_of(options.chunks.value_or(kUsualChunks), "--chunks").value() : 1;
  return {pipeline::make_schedule(options.schedule, ranks, micro_batches, chunks), chunks};
}

std::string title_of(const std::string& name, const pipeline::Schedule& schedule) {
  std::string title = name + " on " + counted(schedule.ranks(), "rank");
  if (schedule.stages != schedule.ranks()) title += ", " + counted(schedule.stages, "stage");
  return title + ", " + counted(schedule.micro_batches, "micro-batch", "micro-batches");
}

}  // namespace adjoin::cli
