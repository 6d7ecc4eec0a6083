#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/lab/machine.hpp"
#include "adjoin/lab/measure/collectives.hpp"
#include "adjoin/lab/measure/sizes.hpp"

namespace adjoin::cli {
namespace {

using measure::Result;

struct CollectiveOptions {
  std::string backend, ranks, operations, sizes = "4K,64K,1M,16M,64M";
  HostMemory host_memory = HostMemory::automatic;
  bool json = false;
};

void check_backend(const CollectiveOptions& options) {
  const bool under_mpi = started_by_mpi();
  constexpr std::string_view kBackends[] = {"threads", "mpi"};
  if (!options.backend.empty()) check_choice("--backend", options.backend, kBackends);
  require(options.backend != "mpi" || under_mpi, [&] {
    return "--backend mpi needs processes of MPI: start it as mpirun -n " +
           (options.ranks.empty() ? "2" : options.ranks) + " adjoin bench collectives";
  });
  require(options.backend != "threads" || !under_mpi,
          [] { return std::string("--backend threads runs in one process: start it without mpirun"); });
}

/// Sizes, in whole elements, for each rank; its two buffers must fit into memory on all ranks of this machine.
std::vector<int64_t> sizes_of(const CollectiveOptions& options, int ranks) {
  const int ranks_here = started_by_mpi() ? mpi_job_ranks_here() : ranks;
  const Machine machine = this_machine();
  const int64_t memory = machine.memory_limit > 0 ? machine.memory_limit : machine.memory;
  const int64_t item = size_of(ElementType::float32);
  const int64_t most = memory > 0 ? memory / (2 * ranks_here) : std::numeric_limits<int64_t>::max();
  const auto sizes = measure::all_bytes_of(options.sizes, "--sizes");
  for (const int64_t bytes : sizes)
    require(bytes % item == 0 && bytes >= item * ranks && bytes <= most, [&] {
      return "--sizes is " + std::to_string(bytes) + ", expected a multiple of " + std::to_string(item) + " from " +
             std::to_string(item * ranks) + " to " + std::to_string(most / item * item) + " on " +
             std::to_string(ranks) + " ranks";
    });
  return sizes;
}

std::vector<Result> measure_all(const CollectiveOptions& options) {
  const auto collectives = measure::collectives_from(options.operations);
  const int ranks = ranks_from(options.ranks, 2);
  const auto sizes = sizes_of(options, ranks);
  std::vector<Result> results;
  const auto measure_each = [&](const Communicator& world) {
    for (const Collective collective : collectives) {
      const auto measured = measure::measure_collective(world, collective, sizes);
      if (world.rank() == 0) results.insert(results.end(), measured.begin(), measured.end());
    }
  };
  launch(ranks, measure_each, {.host_memory = host_memory_or_environment(options.host_memory)});
  return results;
}

void run_collectives(const CollectiveOptions& options) {
  check_backend(options);
  const std::vector<Result> results = measure_all(options);
  Report report{options.json};
  report.table(report.json["results"], "lr", results.size(), [&](size_t i) -> Row {
    const Result& result = results[i];
    const auto if_bytes = [&](const std::string& text, const char* none = "") {
      return result.bytes > 0 ? text : none;
    };
    const double bandwidth = static_cast<double>(result.bytes) / result.median_us * 1e-3;
    return {
        {"operation=op", name(result.collective)},
        {"ranks", result.ranks},
        {"size=bytes", result.bytes, if_bytes(measure::text_of_bytes(result.bytes), "-")},
        {"median=median_us", result.median_us, fixed(result.median_us, 2) + " us"},
        {"bandwidth=", if_bytes(fixed(bandwidth, 2) + " GB/s")},
        {"of limit=limit_us", result.limit_us, if_bytes(fixed(100 * result.limit_us / result.median_us, 0) + " %")}};
  });
  report.print();
}

}  // namespace

void add_bench_collectives(Program& program, CLI::App& bench) {
  auto options = std::make_shared<CollectiveOptions>();
  CLI::App* command = add_command(
      program, bench, "collectives", "Time collectives against the bandwidth of memory",
      [options] { run_collectives(*options); },
      {text("--backend", options->backend, "threads|mpi",
            "Workers are threads of one process, or processes under mpirun"),
       text("--ranks", options->ranks, "INTEGER", "Workers, up to 1024 [2, or those of the MPI job]"),
       text("--op", options->operations, "NAME,...",
            "Operations, with commas in between: " + joined(collective_names()) + " [all]"),
       host_memory_row(options->host_memory),
       text("--sizes", options->sizes, "SIZE,...", "Bytes of the largest buffer of each rank, multiples of 4"),
       json_row(options->json, "object: results, each with op, ranks, bytes, median_us, limit_us")});
  command->footer(
      "Elements are float32. The bandwidth is the size divided by the median; the limit is the time that the machine, "
      "with all ranks copying at once, needs to read and write what the operation must. Data in the caches can be "
      "faster.");
}

}  // namespace adjoin::cli
