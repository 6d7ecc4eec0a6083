#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/sizes.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/bench_matmul.hpp"

namespace adjoin::cli {
namespace {

using linalg::Product;

constexpr int64_t kMostOfFactor = int64_t{1} << 32, kMostRepeats = 1'000'000;

struct MatmulOptions {
  train::BenchMatmulOptions bench;
  std::string product = "nt", chunk = "auto";
  int64_t ranks = started_by_mpi() ? mpi_job_size() : 2;
  bool json = false;
};

void check_range(const char* option, int64_t value, int64_t least, int64_t most) {
  require(value >= least && value <= most, [&] {
    return std::string(option) + " is " + std::to_string(value) + ", expected " + std::to_string(least) + " to " +
           std::to_string(most);
  });
}

Product product_from(const std::string& text) {
  for (const Product product : {Product::nt, Product::nn, Product::tn})
    if (text == linalg::name(product)) return product;
  throw InvalidArgument("--product is " + text + ", expected nt, nn or tn");
}

void check(MatmulOptions& options) {
  train::BenchMatmulOptions& bench = options.bench;
  bench.product = product_from(options.product);
  if (options.chunk != "auto") bench.chunk = number_of(options.chunk, "--chunk", 1, kMostOfFactor);
  check_range("--ranks", options.ranks, 1, kMostThreads);
  require(!started_by_mpi() || options.ranks == mpi_job_size(), [&] {
    return "--ranks is " + std::to_string(options.ranks) + ", the MPI job has " + std::to_string(mpi_job_size());
  });
  check_range("--threads-per-rank", bench.workers.threads_per_rank, 0, kMostThreads);
  check_range("--length", bench.length, 1, kMostOfFactor);
  check_range("--dim", bench.features, 1, kMostOfFactor / bench.length);
  check_range("--times", bench.times, 1, kMostRepeats);
  bench.workers.dp = options.ranks;
}

nlohmann::ordered_json json_of(const MatmulOptions& options, const train::BenchMatmulResult& result) {
  return {{"product", options.product},
          {"ranks", options.ranks},
          {"length", options.bench.length},
          {"dim", options.bench.features},
          {"chunk", options.chunk},
          {"seconds", result.distributed.both},
          {"forward_seconds", result.distributed.forward},
          {"backward_seconds", result.distributed.backward},
          {"local_seconds", result.local.both},
          {"local_forward_seconds", result.local.forward},
          {"local_backward_seconds", result.local.backward},
          {"ratio", result.ratio},
          {"forward_ratio", result.forward_ratio},
          {"peak_memory_bytes", result.peak_memory_bytes}};
}

void print_table(const MatmulOptions& options, const train::BenchMatmulResult& result) {
  std::printf("%-28s %10s %10s %10s\n", "", "forward", "backward", "both");
  const auto print = [](const std::string& what, const train::BenchMatmulResult::Seconds& seconds) {
    std::printf("%-28s %8.4f s %8.4f s %8.4f s\n", what.c_str(), seconds.forward, seconds.backward, seconds.both);
  };
  print(options.product + " on " + std::to_string(options.ranks) + " ranks", result.distributed);
  print("one worker, all threads", result.local);
  std::printf("%-28s %8.3f   %8s   %8.3f\n", "median of the ratios", result.forward_ratio, "", result.ratio);
  for (size_t rank = 0; rank < result.peak_memory_bytes.size(); ++rank)
    std::printf("rank %zu: peak tensor memory %.1f MiB\n", rank,
                static_cast<double>(result.peak_memory_bytes[rank]) / (1 << 20));
}

void run_matmul(MatmulOptions& options) {
  check(options);
  const train::BenchMatmulResult result = train::bench_matmul(options.bench);
  if (!prints()) return;
  options.json ? (void)std::printf("%s\n", json_of(options, result).dump().c_str()) : print_table(options, result);
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
  add_number(*matmul, "--ranks", options->ranks, "Thread ranks; under mpirun the job's [2]");
  add_number(*matmul, "--threads-per-rank", options->bench.workers.threads_per_rank,
             "Threads of each rank; 0: the cores divided by the ranks [0]");
  add_number(*matmul, "--length", options->bench.length, "Rows of all ranks, T [8192]");
  add_number(*matmul, "--dim", options->bench.features, "Features, D [768]");
  add_number(*matmul, "--times", options->bench.times, "Measurements of each; their median counts [10]");
  matmul->add_flag("--json", options->json,
                   "Print one JSON object: seconds of forward and backward, of one worker, ratio, peak_memory_bytes "
                   "of each rank [false]");
}

}  // namespace adjoin::cli
