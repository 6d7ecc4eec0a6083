#include "adjoin/cli/run_program.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/base/version.hpp"
#include "adjoin/cli/command_line.hpp"
#include "adjoin/cli/commands.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/libtorch.hpp"
#include "adjoin/train/failures.hpp"
#include "adjoin/train/interrupt.hpp"

namespace adjoin::cli {
namespace {

constexpr int kUsage = 2, kSignal = 128;

/// In an MPI job every rank finds most mistakes: rank 0 prints the error, and mpirun then ends the others. So the others wait,
/// as a rank that left first would let mpirun end rank 0 before it has printed. A rank that still runs after the wait prints
/// the error itself.
int fail(int code, std::string message) {
  if (code == kUsage) std::replace(message.begin(), message.end(), '\n', ' ');  // a report of ranks has a line for each
  message = printable(message);
  if (const int rank = mpi_job_rank(); rank != 0) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    message = "rank " + std::to_string(rank) + ": " + message;
  }
  std::cerr << "adjoin: " + message + "\n" << std::flush;
  return code;
}

int run(int argc, char** argv, void (*add)(Program&)) {
  Program program;
  const std::string folder = libtorch_folder();
  program.app.set_version_flag("--version", std::string("adjoin ") + kVersion + "\nLibTorch " + libtorch_version() +
                                                (folder.empty() ? "" : " in " + folder));
  add(program);
  try {
    parse(program, {argv + 1, argv + argc});
  } catch (const CLI::Success& wish) {  // --help and --version
    if (prints()) program.app.exit(wish);
    program.action = [] {};
  } catch (const CLI::ParseError& error) {
    return fail(kUsage, error.what());
  }
  act(program);
  flush_output();
  return 0;
}

}  // namespace

void add_commands(Program& program) {
  for (const auto add : {add_train, add_plan, add_evaluate, add_predict, add_generate, add_checkpoint, add_compare,
                         add_export, add_tokenize, add_program, add_bench, add_doctor, add_flight, add_collective,
                         add_layout, add_pipeline, add_report, add_watch})
    add(program);
}

int run_program(int argc, char** argv, void (*add)(Program&)) {
  std::signal(SIGXFSZ, SIG_IGN);  // writing beyond a file size limit is then an error that names the file
  try {
    int code = 0;
    train::with_adjoin_errors([&] { code = run(argc, argv, add); });
    return code;
  } catch (const train::Interrupted& error) {
    return fail(kSignal + error.signal(), error.what());
  } catch (const std::exception& error) {
    const int code = exit_code_of(std::current_exception());
    const auto* advised = dynamic_cast<const train::Advised*>(&error);
    if (!advised) return fail(code, error.what());
    fail(code, advised->failure);
    return fail(code, advised->advice);
  }
}

}  // namespace adjoin::cli
