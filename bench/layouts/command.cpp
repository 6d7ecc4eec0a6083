#include "bench/layouts/command.hpp"

#include "adjoin/base/text.hpp"

namespace adjoin::bench {

void add_common_options(Program& program, CLI::App& app, SideBySideOptions& run, bool& prints_json,
                        const std::string& json, int64_t least_times) {
  int64_t& ranks = run.workers.dp = 2;
  OptionRow ranks_row = number("--ranks", ranks, "Thread ranks; under mpirun the job's");
  ranks_row.check = [&ranks] { check_ranks(ranks); };
  add_options(
      program, app,
      {ranks_row,
       number("--threads-per-rank", run.workers.threads_per_rank,
              "Threads of each rank; 0: the cores divided by the ranks", 0, kMostThreads),
       host_memory_row(run.workers.host_memory),
       number("--times", run.times, "Measurements of each, of which the median is reported; 0: measure only memory",
              least_times, 1'000'000),
       flag("--json", prints_json, "Print " + json)});
  if (started_by_mpi()) ranks = mpi_job_size();
}

Json with_measured(Json row, const Comparison& comparison) {
  if (!comparison.results.empty()) {
    const Result &ours = comparison.results[0], &local = comparison.results[1];
    row.update({{"seconds", ours.both},
                {"forward_seconds", ours.forward},
                {"backward_seconds", ours.backward},
                {"local_seconds", local.both},
                {"local_forward_seconds", local.forward},
                {"local_backward_seconds", local.backward},
                {"ratio", local.ratio},
                {"forward_ratio", local.forward_ratio}});
  }
  row["peak_memory_bytes"] = comparison.peak_memory_bytes;
  return row;
}

std::string text_of(const std::string& what, const Comparison& comparison) {
  const auto ranks = std::ssize(comparison.peak_memory_bytes);
  const std::string name = what + " on " + counted(ranks, "rank");
  const bool has_backward = !comparison.results.empty() && comparison.results[0].backward > 0;
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& first, const std::string& forward, const std::string& backward,
                       const std::string& both) {
    has_backward ? rows.push_back({first, forward, backward, both}) : rows.push_back({first, forward});
  };
  if (comparison.results.empty()) rows.push_back({name});
  if (has_backward) add("", "forward", "backward", "both");
  for (const Result& result : comparison.results) {
    const bool is_ours = &result == &comparison.results[0];
    add(is_ours ? name : result.name, text_of_seconds(result.forward), text_of_seconds(result.backward),
        text_of_seconds(result.both));
    if (!is_ours) add("median of the ratios", fixed(result.forward_ratio, 3), "", fixed(result.ratio, 3));
  }
  std::string text = table_text(rows, "lr");
  for (size_t rank = 0; rank < comparison.peak_memory_bytes.size(); ++rank)
    text += formatted("rank %zu: peak tensor memory %.1f MiB\n", rank,
                      static_cast<double>(comparison.peak_memory_bytes[rank]) / (1 << 20));
  return text;
}

void add_benches(Program& program) {
  program.app.name("bench_layouts")
      ->description("Times work on tensors that are split over workers, and other work beside it.");
  for (const auto add : {add_attention, add_layers, add_matmul, add_moves}) add(program);
}

}  // namespace adjoin::bench
