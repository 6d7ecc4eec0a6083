#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/bench/benches.hpp"

namespace adjoin::cli {
namespace {

using Json = nlohmann::ordered_json;
using nn::AttentionMethod;
using train::Comparison;

constexpr int64_t kMost = int64_t{1} << 32, kMostTimes = 1'000'000;
constexpr std::string_view kMethodNames[] = {"ring", "ulysses", "gathered", "local"};
constexpr std::optional<AttentionMethod> kMethods[] = {AttentionMethod::ring, AttentionMethod::ulysses,
                                                       AttentionMethod::gathered, std::nullopt};
constexpr std::string_view kCuts[] = {"batch", "channels", "height", "width"};
constexpr std::string_view kProductNames[] = {"nt", "nn", "tn"};  // in the order of Product

/// A bench, and what the command line adds to it.
template <class Options>
struct Command : Options {
  std::string word;  // the method, layer or product
  bool json = false;
  CLI::App* app = nullptr;

  int64_t& ranks() { return this->run.workers.grid.dp; }
};

/// `bench NAME` with the options of all commands that time distributed work beside other work.
template <class Options>
std::shared_ptr<Command<Options>> add_command(Program& program, CLI::App& bench, const char* name,
                                              const char* description, void (*run)(Command<Options>&),
                                              const std::string& json =
                                                  "one JSON object: seconds of forward and backward, of one worker, "
                                                  "ratio, peak_memory_bytes of each rank") {
  auto command = std::make_shared<Command<Options>>();
  command->ranks() = started_by_mpi() ? mpi_job_size() : 2;
  command->app = add_command(program, bench, name, description, [command, run] { run(*command); });
  add_number(*command->app, "--ranks", command->ranks(), "Thread ranks; under mpirun the job's [2]");
  add_number(*command->app, "--threads-per-rank", command->run.workers.threads_per_rank,
             "Threads of each rank; 0: the cores divided by the ranks [0]");
  add_host_memory(*command->app, command->run.workers.host_memory);
  add_number(*command->app, "--times", command->run.times,
             "Measurements of each, of which the median is reported; 0: measure only memory [" +
                 std::to_string(command->run.times) + "]");
  command->app->add_flag("--json", command->json, "Print " + json + " [false]");
  return command;
}

void check(const train::SideBySideOptions& run) {
  check_ranks(run.workers.grid.dp);
  check_range("--threads-per-rank", run.workers.threads_per_rank, 0, kMostThreads);
  (void)host_memory_of(run.workers.host_memory);
  check_range("--times", run.times, 0, kMostTimes);
}

/// Adds seconds, ratios and memory to a description of what was measured.
Json with_measured(Json row, const Comparison& comparison) {
  if (!comparison.results.empty()) {
    const train::Result &ours = comparison.results[0], &local = comparison.results[1];
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

/// Prints a line for each entrant and one for its ratio, and one for each rank's memory.
void print(const std::string& what, const Comparison& comparison) {
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
  for (const train::Result& result : comparison.results) {
    const bool is_ours = &result == &comparison.results[0];
    add(is_ours ? name : result.name, text_of_seconds(result.forward), text_of_seconds(result.backward),
        text_of_seconds(result.both));
    if (!is_ours) add("median of the ratios", fixed(result.forward_ratio, 3), "", fixed(result.ratio, 3));
  }
  std::fputs(table_text(rows, "lr").c_str(), stdout);
  for (int64_t rank = 0; rank < ranks; ++rank)
    std::printf("rank %ld: peak tensor memory %.1f MiB\n", long{rank},
                static_cast<double>(comparison.peak_memory_bytes[static_cast<size_t>(rank)]) / (1 << 20));
}

void run_attention(Command<train::BenchAttentionOptions>& c) {
  c.method = kMethods[check_choice("--method", c.word, kMethodNames)];
  if (!c.method) {
    require(mpi_job_size() == 1,
            [] { return "--method local takes one rank, the MPI job has " + std::to_string(mpi_job_size()); });
    if (c.app->count("--ranks") == 0) c.ranks() = 1;
  }
  check(c.run);
  check_product({{"--length", c.length}, {"--heads", c.heads}, {"--dim", c.size}}, kMost);
  require(c.dropout >= 0 && c.dropout < 1,
          [&] { return "--dropout is " + shortest_text(c.dropout) + ", expected 0 or more and less than 1"; });
  require(c.method || c.ranks() == 1,
          [&] { return "--ranks is " + std::to_string(c.ranks()) + ", expected 1 for --method local"; });
  require(c.method || c.dropout == 0, "--dropout is given, but --method local has none");
  const Comparison result = bench_attention(c);
  if (!prints()) return;
  if (!c.json) return print(c.word, result);
  Json row = with_measured({{"method", c.word},
                            {"ranks", c.ranks()},
                            {"length", c.length},
                            {"heads", c.heads},
                            {"dim", c.size},
                            {"causal", c.causal},
                            {"dropout", c.dropout}},
                           result);
  if (result.results.size() > 2)
    row.update({{"plain_seconds", result.results[2].both}, {"plain_ratio", result.results[2].ratio}});
  std::puts(row.dump().c_str());
}

void run_layers(Command<train::BenchLayersOptions>& c) {
  const std::vector<std::string>& known = train::bench_layer_names();
  std::vector<std::string_view> names{"all"};
  names.insert(names.end(), known.begin(), known.end());
  const std::vector<std::string> layers = check_choice("--layer", c.word, names) == 0 ? known : std::vector{c.word};
  check(c.run);
  check_product({{"--batch", c.batch}, {"--channels", c.channels}}, kMost);
  check_range("--size", c.size, 2, 1 << 16);
  check_range("--rows", c.rows, 1, kMost);
  check_range("--features", c.features, 1, 1 << 16);
  check_choice("--cut", c.cut, kCuts);
  const std::vector<Comparison> results = bench_layers(layers, c);
  if (!prints()) return;
  Json rows;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!c.json) {
      print(layers[i], results[i]);
      continue;
    }
    Json row = {{"layer", layers[i]}, {"ranks", c.ranks()}};
    if (layers[i] != "linear") row["cut"] = c.cut;
    rows.push_back(with_measured(row, results[i]));
  }
  if (c.json) std::puts(rows.dump().c_str());
}

struct MatmulOptions : train::BenchMatmulOptions {
  std::string chunk_text = "auto";
};

void run_matmul(Command<MatmulOptions>& c) {
  c.product = static_cast<linalg::Product>(check_choice("--product", c.word, kProductNames));
  if (c.chunk_text != "auto") c.chunk = number_of(c.chunk_text, "--chunk", 1, kMost, "auto");
  check(c.run);
  check_product({{"--length", c.length}, {"--dim", c.features}}, kMost);
  const Comparison result = bench_matmul(c);
  if (!prints()) return;
  if (!c.json) return print(c.word, result);
  const Json row = {
      {"product", c.word}, {"ranks", c.ranks()}, {"length", c.length}, {"dim", c.features}, {"chunk", c.chunk_text}};
  std::puts(with_measured(row, result).dump().c_str());
}

void run_moves(Command<train::BenchMovesOptions>& c) {
  check(c.run);
  check_product({{"--rows", c.rows}, {"--columns", c.columns}}, kMost);
  check_range("--times", c.run.times, 1, kMostTimes);
  const std::vector<Comparison> results = bench_moves(c);
  if (!prints()) return;
  const auto &repartition = results[0].results, &halo = results[1].results;
  if (c.json) {
    const Json row = {{"repartition_seconds", repartition[0].forward},
                      {"copy_seconds", repartition[1].forward},
                      {"halo_seconds", halo[0].forward},
                      {"raw_halo_seconds", halo[1].forward}};
    return void(std::puts(row.dump().c_str()));
  }
  for (const Comparison& result : results) print(result.results[0].name, result);
}

}  // namespace

void add_benches_side_by_side(Program& program, CLI::App& bench) {
  const auto attention = add_command(program, bench, "attention",
                                     "Time attention over a split sequence, and on one worker", run_attention);
  attention->word = "ring";
  add_text(*attention->app, "--method", attention->word, "ring|ulysses|gathered|local",
           "How ranks get each other's keys and values; local: LibTorch's attention on one worker [ring]");
  attention->app->add_flag("--causal", attention->causal, "Hide the keys of later tokens [false]");
  add_number(*attention->app, "--dropout", attention->dropout, "Dropout of the attention probabilities [0]");
  add_number(*attention->app, "--length", attention->length, "Tokens of all ranks, T [8192]");
  add_number(*attention->app, "--heads", attention->heads, "Heads [4]");
  add_number(*attention->app, "--dim", attention->size, "Features of a head [64]");
  attention->app->footer(
      "One sample of float32. One worker's is LibTorch's scaled_dot_product_attention, without dropout. With --causal "
      "or --dropout the method without either takes turns too: plain_seconds, plain_ratio.");

  const auto layers =
      add_command(program, bench, "layers", "Time distributed layers, and torch::nn's on one worker", run_layers,
                  "a JSON list, an object of each layer: seconds of forward and backward, of one worker, ratio, "
                  "peak_memory_bytes of "
                  "each rank");
  layers->word = "all";
  add_text(*layers->app, "--layer", layers->word, "conv|max-pool|batch-norm|upsample|linear|network|all",
           "A convolution (kernel 3), a pooling, a norm, bilinear upsampling by 2, a linear layer, a network of "
           "7 convolutions, 6 norms and 3 poolings, or each of them [all]");
  add_text(*layers->app, "--cut", layers->cut, "batch|channels|height|width",
           "The dim of pictures that is cut over the ranks [height]");
  add_number(*layers->app, "--batch", layers->batch, "Pictures [4]");
  add_number(*layers->app, "--channels", layers->channels, "Channels of a picture [64]");
  add_number(*layers->app, "--size", layers->size, "Height and width of a picture [256]");
  add_number(*layers->app, "--rows", layers->rows, "Rows of the linear layer's input [1024]");
  add_number(*layers->app, "--features", layers->features, "Features of the linear layer, in and out [4096]");

  const auto matmul = add_command(program, bench, "matmul",
                                  "Time a product of matrices split over rows, and on one worker", run_matmul);
  matmul->word = "nt";
  add_text(*matmul->app, "--product", matmul->word, "nt|nn|tn", "A B^T, A B or A^T B [nt]");
  add_text(*matmul->app, "--chunk", matmul->chunk_text, "INTEGER|auto",
           "Rows of each rank (nt) or features (nn, tn) of a round [auto]");
  add_number(*matmul->app, "--length", matmul->length, "Rows of all ranks, T [8192]");
  add_number(*matmul->app, "--dim", matmul->features, "Features, D [768]");

  const auto moves =
      add_command(program, bench, "moves", "Time a repartition and a halo exchange, and bare copies and messages",
                  run_moves, "one JSON object: repartition_seconds, copy_seconds, halo_seconds, raw_halo_seconds");
  add_number(*moves->app, "--rows", moves->rows, "Rows of the float32 matrix [4096]");
  add_number(*moves->app, "--columns", moves->columns, "Its columns [4096]");
}

}  // namespace adjoin::cli
