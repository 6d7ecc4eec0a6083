#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/bench/benches.hpp"

namespace adjoin::cli {
namespace {

struct StepOptions {
  std::shared_ptr<GivenConfiguration> given;
  train::BenchStepOptions bench;
  bool json = false;
};

void run_step(StepOptions& options) {
  options.bench.configuration = options.given->resolve();
  require(!options.bench.configuration.has_program(), "--program: bench step measures adjoin's own models");
  const train::BenchStepResult result = train::bench_step(options.bench);
  if (!prints()) return;
  Report report{options.json};
  for (const std::string& remark : train::remarks(options.bench.configuration)) report.text << remark << '\n';
  const auto most = static_cast<double>(std::ranges::max(result.peak_memory_bytes));
  report.text << fixed(most / (1 << 20), 1) << " MiB of tensors at most on a rank\n";
  if (options.bench.steps > 0) {
    report.json = {{"step_seconds", result.step_seconds},
                   {"samples_per_second", result.samples_per_second},
                   {"matmul_fraction", result.matmul_fraction}};
    report.text << formatted("%.4f s a step   %.1f samples/s   %.0f %% of the speed of matrix products alone\n",
                             result.step_seconds, result.samples_per_second, 100 * result.matmul_fraction);
  }
  if (const auto& bubble = result.bubble) {
    report.json.update({{"bubble", bubble->measured}, {"simulated_bubble", bubble->simulated}});
    report.text << formatted("bubble %.3f of the time, %.3f simulated with the measured costs of the stages\n",
                             bubble->measured, bubble->simulated);
  }
  report.json["peak_memory_bytes"] = result.peak_memory_bytes;
  report.print();
}

}  // namespace

void add_bench(Program& program) {
  CLI::App* bench = program.app.add_subcommand("bench", "Measure speed");
  bench->footer("build/release/bench/bench_layouts times attention, layers, products (matmul) and moves.");
  auto options = std::make_shared<StepOptions>();
  CLI::App* step = add_command(
      program, *bench, "step", "Time training steps of a model on random tokens", [options] { run_step(*options); },
      {number("--steps", options->bench.steps,
              "Steps to measure, of which the median is reported; 0: measure only memory", 0),
       number("--warm-up", options->bench.warm_up, "Steps before these that are not measured", 0),
       json_row(options->json,
                "object: step_seconds, samples_per_second, matmul_fraction, bubble and simulated_bubble "
                "(with --pp), peak_memory_bytes of each rank")});
  options->given = add_configuration_options(*step, {"Model", "batch", "microbatches", "precision", "seed", "Layout"});
  step->footer(preset_table());
  add_bench_collectives(program, *bench);
  add_bench_pipeline(program, *bench);
}

}  // namespace adjoin::cli
