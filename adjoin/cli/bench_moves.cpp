#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/sizes.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/bench/moves.hpp"

namespace adjoin::cli {
namespace {

constexpr int64_t kMostOfMatrix = int64_t{1} << 32, kMostTimes = 1'000'000;

struct MovesOptions {
  train::BenchMovesOptions bench;
  int64_t ranks = started_by_mpi() ? mpi_job_size() : 2;
  bool json = false;
};

void run_moves(MovesOptions& options) {
  check_ranks(options.ranks);
  check_product({{"--rows", options.bench.rows}, {"--columns", options.bench.columns}}, kMostOfMatrix);
  check_range("--times", options.bench.times, 1, kMostTimes);
  options.bench.workers.plan.dp = options.ranks;
  const train::BenchMovesResult result = train::bench_moves(options.bench);
  if (!prints()) return;
  if (options.json) {
    const nlohmann::ordered_json json = {{"repartition_seconds", result.repartition},
                                         {"copy_seconds", result.copy},
                                         {"halo_seconds", result.halo},
                                         {"raw_halo_seconds", result.raw_halo}};
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  std::printf("repartition   %8.3f ms; copying the matrix takes %.3f ms, %.2f times as long\n",
              1e3 * result.repartition, 1e3 * result.copy, result.copy / result.repartition);
  std::printf("halo exchange %8.2f us; the bare exchange and a copy of the interior take %.2f us\n", 1e6 * result.halo,
              1e6 * result.raw_halo);
}

}  // namespace

void add_bench_moves(Program& program, CLI::App& bench) {
  auto options = std::make_shared<MovesOptions>();
  CLI::App* moves =
      add_command(program, bench, "moves", "Time a repartition and a halo exchange beside what they come to",
                  [options] { run_moves(*options); });
  add_number(*moves, "--ranks", options->ranks, "Thread ranks; under mpirun the job's [2]");
  add_number(*moves, "--rows", options->bench.rows, "Rows of the float32 matrix [4096]");
  add_number(*moves, "--columns", options->bench.columns, "Its columns [4096]");
  add_number(*moves, "--times", options->bench.times, "Measurements; their median counts [21]");
  moves->add_flag("--json", options->json,
                  "Print one JSON object: repartition_seconds, copy_seconds, halo_seconds, raw_halo_seconds [false]");
}

}  // namespace adjoin::cli
