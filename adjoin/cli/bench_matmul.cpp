#include "adjoin/train/bench/matmul.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/side_by_side.hpp"
#include "adjoin/cli/sizes.hpp"

namespace adjoin::cli {
namespace {

using linalg::Product;

constexpr int64_t kMostOfFactor = int64_t{1} << 32;

struct MatmulOptions {
  train::BenchMatmulOptions bench;
  SideBySideOptions side_by_side;
  std::string product = "nt", chunk = "auto";
};

constexpr std::string_view kProductNames[] = {"nt", "nn", "tn"};  // in the order of Product

void check(MatmulOptions& options) {
  train::BenchMatmulOptions& bench = options.bench;
  bench.product = static_cast<Product>(check_choice("--product", options.product, kProductNames));
  if (options.chunk != "auto") bench.chunk = number_of(options.chunk, "--chunk", 1, kMostOfFactor, "auto");
  bench.run = checked_run(options.side_by_side);
  check_product({{"--length", bench.length}, {"--dim", bench.features}}, kMostOfFactor);
}

void run_matmul(MatmulOptions& options) {
  check(options);
  const train::SideBySide result = train::bench_matmul(options.bench);
  if (!prints()) return;
  if (!options.side_by_side.json) return print_side_by_side(options.product, result);
  nlohmann::ordered_json row = {{"product", options.product},
                                {"ranks", options.side_by_side.ranks},
                                {"length", options.bench.length},
                                {"dim", options.bench.features},
                                {"chunk", options.chunk}};
  add_measured(row, result);
  std::printf("%s\n", row.dump().c_str());
}

}  // namespace

void add_bench_matmul(Program& program, CLI::App& bench) {
  auto options = std::make_shared<MatmulOptions>();
  CLI::App* matmul =
      add_command(program, bench, "matmul", "Time a product of matrices split over rows beside one worker's",
                  [options] { run_matmul(*options); });
  matmul->add_option("--product", options->product, "A B^T, A B or A^T B [nt]")->option_text("nt|nn|tn");
  matmul->add_option("--chunk", options->chunk, "Rows of each rank (nt) or features (nn, tn) of a round [auto]")
      ->option_text("INTEGER|auto");
  add_number(*matmul, "--length", options->bench.length, "Rows of all ranks, T [8192]");
  add_number(*matmul, "--dim", options->bench.features, "Features, D [768]");
  add_side_by_side(*matmul, options->side_by_side);
}

}  // namespace adjoin::cli
