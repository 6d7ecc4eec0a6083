#pragma once

#include <memory>
#include <string>

#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/comm/launch.hpp"
#include "bench/layouts/side_by_side.hpp"

namespace adjoin::bench {

using namespace cli;

inline constexpr int64_t kMost = int64_t{1} << 32;

/// A bench, and what the command line adds to it.
template <class Options>
struct Command : Options {
  std::string word;  // the method, layer or product
  bool json = false;
  CLI::App* app = nullptr;

  int64_t& ranks() { return this->run.workers.dp; }
};

/// Adds the options that all benches have.
void add_common_options(Program& program, CLI::App& app, SideBySideOptions& run, bool& prints_json,
                        const std::string& json, int64_t least_times);

/// A command NAME with the options of all benches and its own, `rows`.
template <class Options>
CLI::App* add_bench(Program& program, const char* name, const char* description,
                    const std::shared_ptr<Command<Options>>& command, void (*run)(Command<Options>&),
                    std::initializer_list<OptionRow> rows,
                    const std::string& json =
                        "one JSON object: seconds of forward and backward, of one worker, ratio, peak_memory_bytes of "
                        "each rank",
                    int64_t least_times = 0) {
  command->app = add_command(program, program.app, name, description, [command, run] { run(*command); });
  add_common_options(program, *command->app, command->run, command->json, json, least_times);
  add_options(program, *command->app, rows);
  return command->app;
}

/// Adds seconds, ratios and memory to a description of what was measured.
Json with_measured(Json row, const Comparison& comparison);

/// A line for each entrant and one for its ratio, and one for each rank's memory.
std::string text_of(const std::string& what, const Comparison& comparison);

void add_attention(Program& program);
void add_layers(Program& program);
void add_matmul(Program& program);
void add_moves(Program& program);

/// All of them, which are then the whole program.
void add_benches(Program& program);

}  // namespace adjoin::bench
