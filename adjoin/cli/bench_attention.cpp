#include "adjoin/train/bench/attention.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/side_by_side.hpp"
#include "adjoin/cli/sizes.hpp"
#include "adjoin/comm/launch.hpp"

namespace adjoin::cli {
namespace {

using nn::AttentionMethod;

constexpr int64_t kMostOfHeads = int64_t{1} << 32;

struct BenchedAttentionOptions {
  train::BenchAttentionOptions bench;
  SideBySideOptions side_by_side;
  std::string method = "ring";
  const CLI::App* command = nullptr;
};

constexpr std::string_view kMethodNames[] = {"ring", "ulysses", "gathered", "local"};
constexpr std::optional<AttentionMethod> kMethods[] = {AttentionMethod::ring, AttentionMethod::ulysses,
                                                       AttentionMethod::gathered, std::nullopt};

void check(BenchedAttentionOptions& options) {
  train::BenchAttentionOptions& bench = options.bench;
  bench.method = kMethods[check_choice("--method", options.method, kMethodNames)];
  if (!bench.method) {
    require(mpi_job_size() == 1,
            [] { return "--method local takes one rank, the MPI job has " + std::to_string(mpi_job_size()); });
    if (options.command->count("--ranks") == 0) options.side_by_side.ranks = 1;
  }
  bench.run = checked_run(options.side_by_side);
  check_product({{"--length", bench.length}, {"--heads", bench.heads}, {"--dim", bench.size}}, kMostOfHeads);
  require(bench.dropout >= 0 && bench.dropout < 1,
          [&] { return "--dropout is " + shortest_text(bench.dropout) + ", expected 0 or more and less than 1"; });
  if (bench.method) return;
  require(options.side_by_side.ranks == 1, [&] {
    return "--ranks is " + std::to_string(options.side_by_side.ranks) + ", expected 1 for --method local";
  });
  require(bench.dropout == 0, "--dropout is given, but --method local has none");
}

void run_attention(BenchedAttentionOptions& options) {
  check(options);
  const train::SideBySide result = train::bench_attention(options.bench);
  if (!prints()) return;
  const bool has_plain = result.plain_ratio > 0;
  if (!options.side_by_side.json) {
    print_side_by_side(options.method, result);
    if (has_plain)
      std::printf("%-28s %8.4f s, median of the ratios %.3f\n", "neither causal nor dropped", result.plain.both,
                  result.plain_ratio);
    return;
  }
  nlohmann::ordered_json row = {{"method", options.method},        {"ranks", options.side_by_side.ranks},
                                {"length", options.bench.length},  {"heads", options.bench.heads},
                                {"dim", options.bench.size},       {"causal", options.bench.causal},
                                {"dropout", options.bench.dropout}};
  add_measured(row, result);
  if (has_plain) {
    row["plain_seconds"] = result.plain.both;
    row["plain_ratio"] = result.plain_ratio;
  }
  std::printf("%s\n", row.dump().c_str());
}

}  // namespace

void add_bench_attention(Program& program, CLI::App& bench) {
  auto options = std::make_shared<BenchedAttentionOptions>();
  CLI::App* attention =
      add_command(program, bench, "attention", "Time attention over a split sequence beside one worker's",
                  [options] { run_attention(*options); });
  options->command = attention;
  attention->add_option("--method", options->method, "How keys and values come; local: LibTorch's on one worker [ring]")
      ->option_text("ring|ulysses|gathered|local");
  attention->add_flag("--causal", options->bench.causal, "Hide the keys of later tokens [false]");
  add_number(*attention, "--dropout", options->bench.dropout, "Of the probabilities [0]");
  add_number(*attention, "--length", options->bench.length, "Tokens of all ranks, T [8192]");
  add_number(*attention, "--heads", options->bench.heads, "Heads [4]");
  add_number(*attention, "--dim", options->bench.size, "Features of a head [64]");
  add_side_by_side(*attention, options->side_by_side);
  attention->footer(
      "One sample of float32. One worker's is LibTorch's scaled_dot_product_attention, without dropout. With --causal "
      "or --dropout the method without either takes turns too: plain_seconds, plain_ratio.");
}

}  // namespace adjoin::cli
