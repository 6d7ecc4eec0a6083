#include <algorithm>
#include <memory>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/collective_report.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/lab/comparison.hpp"
#include "adjoin/lab/measure/sizes.hpp"

namespace adjoin::cli {
namespace {

constexpr int kMostSimulated = 8192, kMostCompared = 65536, kMostDrawn = 128;
constexpr int64_t kMostPieces = 1 << 18;           // of all ranks together; some hundred bytes each in a recording
constexpr int64_t kMostMemory = int64_t{4} << 30;  // of all ranks' buffers together
constexpr algorithm::Network kUsualNetwork{.alpha = 2e-6, .beta = 8e-11};
constexpr const char* kUsualSizes = "64,1K,16K,256K,4M,64M";

struct LabOptions {
  std::string operation, algorithm, ranks = "4", root, bytes, chunk, svg;
  std::optional<double> alpha, beta;
  bool json = false, compare = false;
};

Collective collective_of(const LabOptions& options) {
  if (const auto collective = collective_named(options.operation)) return *collective;
  throw InvalidArgument(
      (options.operation.empty() ? "an operation is needed" : "unknown operation \"" + options.operation + "\"") +
      ": " + joined(collective_names()));
}

double seconds_of(const std::optional<double>& given, double otherwise, const char* option) {
  const double seconds = given.value_or(otherwise);
  require(seconds >= 0 && seconds <= 1e6,  // a NaN fails too
          [&] { return formatted("%s is %g, expected 0 to 1000000", option, seconds); });
  return seconds;
}

algorithm::Network network_of(const LabOptions& options, const algorithm::Network& otherwise) {
  return {seconds_of(options.alpha, otherwise.alpha, "--alpha"), seconds_of(options.beta, otherwise.beta, "--beta")};
}

bool is_left_open(const LabOptions& options) {
  return options.algorithm.empty() || options.algorithm == "auto";
}

std::string algorithm_of(const LabOptions& options, Collective collective, int ranks, int64_t bytes) {
  if (is_left_open(options)) return std::string(algorithm::choose(collective, ranks, bytes));
  const auto known = algorithm::names_of(collective);
  require(std::find(known.begin(), known.end(), options.algorithm) != known.end(), [&] {
    return "--algorithm: unknown algorithm \"" + options.algorithm + "\" for " + options.operation + ": " +
           joined(known) + ", auto";
  });
  return options.algorithm;
}

/// The bytes of a piece; 0 if the message is not cut.
int64_t chunk_of(const LabOptions& options) {
  return options.chunk.empty() ? 0 : measure::bytes_of(options.chunk, "--chunk");
}

/// Sets the size of pieces for the algorithm; if the user did not choose, the best size, as in such a call.
void set_chunk(lab::Exercise& exercise, const LabOptions& options, std::string_view algorithm) {
  if (!algorithm::is_pipeline(exercise.collective, algorithm)) {
    exercise.chunk = 0;
    return;
  }
  const int64_t most = kMostPieces / exercise.ranks();
  if (options.chunk.empty() && is_left_open(options))
    exercise.chunk = std::max(algorithm::chunk_for(exercise.ranks(), exercise.count, size_of(exercise.type)),
                              exercise.count / most + 1);
  const int64_t pieces = request_of(exercise).pieces();
  require(pieces <= most, [&] {
    return "--chunk makes " + std::to_string(pieces) + " pieces, expected at most " + std::to_string(most) + " on " +
           std::to_string(exercise.ranks()) + " ranks";
  });
}

/// The checked numbers of an element are four times as large as an int32, and each rank has an input and an output.
void require_room(int ranks, int64_t bytes) {
  require(bytes <= kMostMemory / 8 / ranks, [&] {
    return "--bytes is " + std::to_string(bytes) + ", expected at most " + std::to_string(kMostMemory / 8 / ranks) +
           " on " + std::to_string(ranks) + " ranks";
  });
}

void run_comparison(const LabOptions& options, Collective collective) {
  require(options.algorithm.empty(), "--compare takes all algorithms; leave --algorithm out");
  require(options.svg.empty(), "--compare draws nothing; leave --svg out");
  const algorithm::Network network = network_of(options, kUsualNetwork);
  const int64_t most = collective == Collective::all_to_all ? 4096 : kMostCompared;  // it has ranks * ranks counts
  const int64_t chunk = chunk_of(options);
  const std::string given = options.bytes.empty() ? kUsualSizes : options.bytes;
  const std::vector<int64_t> sizes = measure::all_bytes_of(collective == Collective::barrier ? "0" : given, "--bytes");
  std::vector<lab::Contest> contests;
  for (const int64_t ranks : numbers_of(options.ranks, "--ranks", 1, most))
    for (const int64_t bytes : sizes)
      contests.push_back(lab::compare(collective, static_cast<int>(ranks), bytes, chunk, network));
  report_of(contests, collective, network, options.json).print();
}

void run_one(const LabOptions& options, Collective collective) {
  std::optional<algorithm::Network> network;
  if (options.alpha || options.beta) network = network_of(options, /*otherwise=*/{});
  for (const auto& [option, given] : {std::pair("--ranks", options.ranks), {"--bytes", options.bytes}})
    require(given.find(',') == given.npos && given.find("..") == given.npos,
            [&] { return std::string(option) + " is " + given + ", expected one number without --compare"; });
  // An all_to_all has ranks * ranks counts, which every rank's program checks.
  const bool may_be_simulated_only = network && collective != Collective::all_to_all;
  const auto ranks =
      static_cast<int>(number_of(options.ranks, "--ranks", 1, may_be_simulated_only ? kMostSimulated : kMostThreads));
  const bool runs = ranks <= kMostThreads;
  const bool roots = has_root(collective) && !options.root.empty();
  const auto root = static_cast<int>(roots ? number_of(options.root, "--root", 0, ranks - 1) : 0);
  const int64_t bytes = collective == Collective::barrier
                            ? 0
                            : measure::bytes_of(options.bytes.empty() ? "1K" : options.bytes, "--bytes");
  if (runs) require_room(ranks, bytes);
  const std::string algorithm = algorithm_of(options, collective, ranks, bytes);
  require(options.svg.empty() || ranks <= kMostDrawn,
          [&] { return "--svg draws up to " + std::to_string(kMostDrawn) + " ranks"; });
  lab::Exercise exercise = lab::exercise_of(collective, ranks, root, bytes, chunk_of(options));
  set_chunk(exercise, options, algorithm);
  const Outcome outcome = find_out(exercise, algorithm, bytes, runs, network, !options.svg.empty());
  if (!options.svg.empty()) write_svg(outcome, options.svg);
  report_of(outcome, options.json).print();
  if (outcome.trial && !outcome.trial->is_right)
    throw InternalError(options.operation + " by " + algorithm + ": the ranks do not hold what they should");
}

void run_collective(const LabOptions& options) {
  const Collective collective = collective_of(options);
  if (!prints()) return;  // only rank 0 of an MPI job: the workers are threads
  (options.compare ? run_comparison : run_one)(options, collective);
}

OptionRow seconds(const std::string& name, std::optional<double>& variable, const std::string& help) {
  return option(name, "SECONDS", help,
                [name, &variable](const std::string& value) { variable = number_from<double>(value, name); });
}

}  // namespace

void add_collective(Program& program) {
  auto options = std::make_shared<LabOptions>();
  add_command(
      program, program.app, "collective",
      "Run one collective operation on thread workers and show who sends what to whom",
      [options] { run_collective(*options); },
      {text("operation", options->operation, "OPERATION",
            "barrier, broadcast, reduce, all_reduce, gather, scatter, all_gather, reduce_scatter or all_to_all"),
       text("--algorithm", options->algorithm, "NAME",
            "How: naive, tree, ring, …; a wrong name lists those of the operation [auto]"),
       text("--ranks", options->ranks, "RANKS",
            "Workers, up to 1024; with --alpha or --beta up to 8192, which are then only simulated (not all_to_all); "
            "with --compare several, as in 2,3,8 or 4..4096, which doubles, up to 65536 (all_to_all: 4096)"),
       text("--root", options->root, "RANK",
            "The root, which sends or receives; no effect on operations without a root [0]"),
       text("--bytes", options->bytes, "BYTES",
            "Size, as in 512, 4K or 1M: of each rank's buffer; of all blocks together (gather, scatter, all_gather, "
            "reduce_scatter); of what each rank sends (all_to_all). With --compare several [1K; "
            "64,1K,16K,256K,4M,64M]"),
       text("--chunk", options->chunk, "BYTES",
            "Size of a piece of a broadcast by ring, no effect elsewhere; 0: a single piece [0; the best size if "
            "--algorithm is not given, and with --compare]"),
       seconds("--alpha", options->alpha,
               "Simulate a network on which a message costs so many seconds (full duplex, one port per rank, alpha + "
               "beta * bytes per message); the seconds shown are then simulated, else measured [0; with --compare "
               "2e-6]"),
       seconds("--beta", options->beta,
               "… and each byte of a message so many more [0; with --compare 8e-11, 100 Gbit/s]"),
       file("--svg", options->svg,
            "Draw the messages as a space-time diagram, along the simulated time or the steps; up to 128 ranks"),
       flag("--compare", options->compare,
            "Print which algorithm is the quickest at each size on each number of ranks, by formula"),
       json_row(options->json,
                "object: ranks (rank, sent, received, bytes_sent, bytes_received), steps, seconds; with "
                "--compare alpha, beta, results (ranks, bytes, algorithm, seconds, all)")});
}

}  // namespace adjoin::cli
