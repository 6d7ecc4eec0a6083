#include "adjoin/cli/side_by_side.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/sizes.hpp"

namespace adjoin::cli {

namespace {

constexpr int64_t kMostRepeats = 1'000'000;

}  // namespace

void add_side_by_side(CLI::App& command, SideBySideOptions& options, const std::string& json) {
  add_number(command, "--ranks", options.ranks, "Thread ranks; under mpirun the job's [2]");
  add_number(command, "--threads-per-rank", options.run.workers.threads_per_rank,
             "Threads of each rank; 0: the cores divided by the ranks [0]");
  add_number(
      command, "--times", options.run.times,
      "Measurements of each, whose median counts; 0: the memory alone [" + std::to_string(options.run.times) + "]");
  command.add_flag("--json", options.json,
                   "Print " + json +
                       ": seconds of forward and backward, of one worker, ratio, peak_memory_bytes of each rank "
                       "[false]");
}

const train::SideBySideOptions& checked_run(SideBySideOptions& options) {
  check_ranks(options.ranks);
  check_range("--threads-per-rank", options.run.workers.threads_per_rank, 0, kMostThreads);
  check_range("--times", options.run.times, 0, kMostRepeats);
  options.run.workers.plan.dp = options.ranks;
  return options.run;
}

void add_measured(nlohmann::ordered_json& row, const train::SideBySide& result) {
  if (result.ratio > 0) {
    row["seconds"] = result.distributed.both;
    row["forward_seconds"] = result.distributed.forward;
    row["backward_seconds"] = result.distributed.backward;
    row["local_seconds"] = result.local.both;
    row["local_forward_seconds"] = result.local.forward;
    row["local_backward_seconds"] = result.local.backward;
    row["ratio"] = result.ratio;
    row["forward_ratio"] = result.forward_ratio;
  }
  row["peak_memory_bytes"] = result.peak_memory_bytes;
}

void print_side_by_side(const std::string& what, const train::SideBySide& result) {
  const size_t ranks = result.peak_memory_bytes.size();
  const std::string distributed = what + " on " + counted(static_cast<int64_t>(ranks), "rank");
  if (result.ratio > 0) {
    std::printf("%-28s %10s %10s %10s\n", "", "forward", "backward", "both");
    const auto print = [](const std::string& name, const train::SideBySide::Seconds& seconds) {
      std::printf("%-28s %8.4f s %8.4f s %8.4f s\n", name.c_str(), seconds.forward, seconds.backward, seconds.both);
    };
    print(distributed, result.distributed);
    print("one worker, all threads", result.local);
    std::printf("%-28s %8.3f   %8s   %8.3f\n", "median of the ratios", result.forward_ratio, "", result.ratio);
  } else {
    std::printf("%s\n", distributed.c_str());
  }
  for (size_t rank = 0; rank < ranks; ++rank)
    std::printf("rank %zu: peak tensor memory %.1f MiB\n", rank,
                static_cast<double>(result.peak_memory_bytes[rank]) / (1 << 20));
}

}  // namespace adjoin::cli
