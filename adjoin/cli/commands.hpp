#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace adjoin::cli {

/// The options that a file of --config gave, as "--lr", and the place of each, as "run.toml:3: ".
using GivenByFile = std::map<std::string, std::string>;

/// The command line being built. Each subcommand, when it is chosen, stores its work in `action`, which runs after the whole
/// line was understood.
struct Program {
  Program();

  CLI::App app{"adjoin trains one neural network on many workers.", "adjoin"};
  std::function<void()> action;
  CLI::App* takes_texts = nullptr;  // the subcommand whose words are texts unless they are options
  std::vector<std::string> texts;   // of that subcommand
  GivenByFile given_by_file;        // once the action has begun
  std::map<const CLI::App*, std::vector<std::function<void()>>> checks;  // of a command's options, before its action
};

/// All of them.
void add_commands(Program& program);

void add_train(Program& program);
void add_plan(Program& program);
void add_evaluate(Program& program);
void add_predict(Program& program);
void add_generate(Program& program);
void add_checkpoint(Program& program);
void add_compare(Program& program);
void add_export(Program& program);
void add_tokenize(Program& program);
void add_program(Program& program);
void add_bench(Program& program);
void add_bench_collectives(Program& program, CLI::App& bench);
void add_bench_pipeline(Program& program, CLI::App& bench);
void add_doctor(Program& program);
void add_collective(Program& program);
void add_flight(Program& program);
void add_layout(Program& program);
void add_pipeline(Program& program);
void add_report(Program& program);
void add_watch(Program& program);

}  // namespace adjoin::cli
