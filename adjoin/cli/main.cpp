#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/commands.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/train/interrupt.hpp"

namespace {

constexpr int kFailure = 1, kUsage = 2, kInterrupted = 130;

int fail(int code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (adjoin::cli::prints()) std::cerr << "adjoin: " << message << std::endl;
  return code;
}

int run(int argc, char** argv) {
  adjoin::cli::Program program;
  program.app.set_version_flag("--version", "adjoin 0.1.0");
  adjoin::cli::add_train(program);
  adjoin::cli::add_evaluate(program);
  adjoin::cli::add_predict(program);
  adjoin::cli::add_tokenize(program);
  adjoin::cli::add_bench(program);
  try {
    program.app.parse(argc, argv);
  } catch (const CLI::Success& wish) {  // --help and --version
    return adjoin::cli::prints() ? program.app.exit(wish) : 0;
  } catch (const CLI::ParseError& error) {
    return fail(kUsage, error.what());
  }
  adjoin::require(program.action != nullptr, "a command is needed; adjoin --help lists them");
  program.action();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const adjoin::train::Interrupted& error) {
    return fail(kInterrupted, error.what());
  } catch (const adjoin::InvalidArgument& error) {
    return fail(kUsage, error.what());
  } catch (const adjoin::IoError& error) {
    return fail(kUsage, error.what());
  } catch (const std::exception& error) {
    return fail(kFailure, error.what());
  }
}
