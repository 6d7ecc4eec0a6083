#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/cli/options.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/bench_moves.hpp"

namespace adjoin::cli {
namespace {

struct MovesOptions {
  train::BenchMovesOptions bench;
  bool json = false;
};

void run_moves(MovesOptions& options) {
  if (started_by_mpi()) options.bench.workers.dp = mpi_job_size();
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
  std::printf("repartition   %8.3f ms   %4.2f of the speed of copying it, %.3f ms\n", 1e3 * result.repartition,
              result.copy / result.repartition, 1e3 * result.copy);
  std::printf("halo exchange %8.2f us   %+.2f us on the bare exchange and a copy of the interior\n", 1e6 * result.halo,
              1e6 * (result.halo - result.raw_halo));
}

}  // namespace

void add_bench_moves(Program& program, CLI::App& bench) {
  auto options = std::make_shared<MovesOptions>();
  options->bench.workers.dp = 2;
  CLI::App* moves =
      add_command(program, bench, "moves", "Time a repartition and a halo exchange beside what they come to",
                  [options] { run_moves(*options); });
  moves->add_option("--ranks", options->bench.workers.dp, "Thread ranks; under mpirun the job's [2]")
      ->option_text("INTEGER");
  moves->add_option("--rows", options->bench.rows, "Rows of the float32 matrix [4096]")->option_text("INTEGER");
  moves->add_option("--columns", options->bench.columns, "Its columns [4096]")->option_text("INTEGER");
  moves->add_option("--times", options->bench.times, "Measurements; their median counts [21]")->option_text("INTEGER");
  moves->add_flag("--json", options->json,
                  "Print one JSON object: repartition_seconds, copy_seconds, halo_seconds, raw_halo_seconds [false]");
}

}  // namespace adjoin::cli
