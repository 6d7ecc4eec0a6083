#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "adjoin/cli/run_program.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::test {

struct Outcome {
  int code;
  std::string out, err;
};

/// How the program is started, each as a shell would have it.
struct Surroundings {
  std::string environment{};        // NAME=value …
  std::string input = "/dev/null";  // the file that is its standard input
  std::string output = "";          // where its standard output goes; "": to Outcome::out
  std::string limits{};             // "ulimit …;"
  int ranks = 0;                    // of an MPI job; 0: not under mpirun
  const char* program = ADJOIN_PROGRAM;
  void (*commands)(cli::Program&) = cli::add_commands;  // those of the program
};

inline std::string shell_quoted(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The built program, running: without the variables of an MPI job that this test may be part of, with one thread of
/// computation, and with a cache of its own. What is still running at the end of its life is killed.
///
/// Without an environment, limits or ranks of its own, and without a $ in its arguments, which bash expands, it runs in a
/// fork of this test. That has loaded LibTorch already, which else takes a quarter of a second a start.
class Running {
 public:
  explicit Running(const std::string& arguments, const Surroundings& where = {}) {
    put(folder_ / "out", "");
    std::fflush(nullptr);
    process_ = ::fork();
    if (process_ != 0) return;
    wordexp_t words{};
    const bool is_plain = where.environment.empty() && where.limits.empty() && where.ranks == 0 &&
                          arguments.find('$') == std::string::npos;
    if (is_plain && ::wordexp(("adjoin " + arguments).c_str(), &words, WRDE_NOCMD) == 0) run_here(words, where);
    ::execl("/bin/bash", "bash", "-c", command_line(arguments, where).c_str(), nullptr);
    ::_exit(127);
  }
  ~Running() {
    if (process_ > 0) signal(SIGKILL), wait();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void signal(int number) const { ::kill(process_, number); }

  /// What it has said so far on standard error.
  std::string errors() const {
    const std::filesystem::path file = folder_ / "err";
    return std::filesystem::exists(file) ? contents_of(file) : "";
  }

  /// The outcome; a program that a signal ended has the code 128 + signal, as in a shell.
  Outcome wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, contents_of(folder_ / "out"), contents_of(folder_ / "err")};
  }

 private:
  static constexpr const char* kVariablesOfJobs[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                                     "PMI_RANK", "SLURM_PROCID"};

  std::filesystem::path output_of(const Surroundings& where) const {
    return where.output.empty() ? folder_ / "out" : std::filesystem::path(where.output);
  }

  [[noreturn]] void run_here(const wordexp_t& words, const Surroundings& where) const {
    for (const char* variable : kVariablesOfJobs) ::unsetenv(variable);
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    const int in = ::open(where.input.c_str(), O_RDONLY);
    const int out = ::open(output_of(where).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int err = ::open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (in < 0 || out < 0 || err < 0) ::_exit(127);
    ::dup2(in, STDIN_FILENO), ::dup2(out, STDOUT_FILENO), ::dup2(err, STDERR_FILENO);
    ::close_range(STDERR_FILENO + 1, ~0u, 0);  // what the test holds open, as the other end of a pipe
    const int code = cli::run_program(static_cast<int>(words.we_wordc), words.we_wordv, where.commands);
    std::cout.flush(), std::fflush(nullptr);
#ifdef __SANITIZE_ADDRESS__
    std::exit(code);  // which looks for leaks
#endif
    ::_exit(code);
  }

  std::string command_line(const std::string& arguments, const Surroundings& where) const {
    std::string command = where.limits + " exec env";
    for (const char* variable : kVariablesOfJobs) command += std::string(" -u ") + variable;
    return command +
           " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1"
           " OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none OMP_NUM_THREADS=1"
           " XDG_CACHE_HOME=" +
           shell_quoted(folder_ / "cache") + " " +
           // OpenMPI keeps what it allocated until the process ends; our own leaks are looked for on threads.
           (where.ranks == 0 ? "" : "ASAN_OPTIONS=detect_leaks=0 ") + where.environment + " " +
           (where.ranks == 0 ? "" : "'" ADJOIN_MPIEXEC "' -n " + std::to_string(where.ranks) + " ") + "'" +
           where.program + "' " + arguments + " > " + shell_quoted(output_of(where)) + " 2> " +
           shell_quoted(folder_ / "err") + " < " + shell_quoted(where.input);
  }

  TemporaryFolder folder_;
  pid_t process_ = -1;
};

inline Outcome run(const std::string& arguments, const Surroundings& where = {}) {
  return Running(arguments, where).wait();
}

/// The same of a command that does what it is asked and has nothing to say on standard error.
inline Outcome run_well(const std::string& arguments, const Surroundings& where = {}) {
  Outcome outcome = run(arguments, where);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome;
}

/// Exit code 2 and one line that begins with "adjoin: "; mpirun adds words of its own.
inline void expect_refused(const Outcome& outcome, const std::string& expected, bool under_mpirun = false) {
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  std::vector<std::string> lines = lines_of(outcome.err);
  if (under_mpirun) std::erase_if(lines, [](const std::string& line) { return !line.starts_with("adjoin: "); });
  ASSERT_EQ(lines.size(), 1u) << outcome.err;
  EXPECT_THAT(lines[0], testing::AllOf(testing::StartsWith("adjoin: "), testing::HasSubstr(expected)));
}

/// What such a command prints with --json.
inline nlohmann::json printed_json(const std::string& arguments, const Surroundings& where = {}) {
  return nlohmann::json::parse(run_well(arguments + " --json", where).out);
}

/// Options of a model that trains in a moment, and such a training, on the embedded corpus: six steps an epoch.
inline const std::string kSmallModel =
    " --preset tiny --vocabulary-size 300 --layers 1 --hidden 16 --heads 4 --sequence 32 --batch 8"
    " --threads-per-rank 1 ";
inline const std::string kSmallRun = "train --data sample --samples 48 " + kSmallModel;

inline std::string into(const std::filesystem::path& folder) {
  return " --out " + shell_quoted(folder);
}

inline std::filesystem::path metrics_of(const std::filesystem::path& run) {
  return run / "metrics.jsonl";
}

/// What a run's metrics say of one kind: of each step, or each evaluation.
inline std::vector<nlohmann::json> lines_of_kind(const std::filesystem::path& run, const std::string& kind) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : lines_of(contents_of(metrics_of(run))))
    if (auto object = nlohmann::json::parse(line); object.at("kind") == kind) lines.push_back(std::move(object));
  return lines;
}

/// The losses of steps 1, 2, 3, … in the order of the run's file, which holds each of them once.
inline std::vector<double> losses_of(const std::filesystem::path& run) {
  std::vector<double> losses;
  for (const nlohmann::json& step : lines_of_kind(run, "step")) {
    losses.push_back(step.at("loss"));
    EXPECT_EQ(step.at("step"), losses.size());
  }
  return losses;
}

/// The newest checkpoint of a run.
inline std::filesystem::path checkpoint_of(const std::filesystem::path& run) {
  const auto all = train::checkpoints_in(run);
  if (all.empty()) throw std::runtime_error(run.string() + " has no checkpoint");
  return all.front().path;
}

/// The state of a checkpoint without the checksums that stand in it, as versions before them had it: for one that is changed.
inline nlohmann::json without_checksums(const std::string& state) {
  auto json = nlohmann::json::parse(state);
  for (const char* key : {"checksum", "files"}) json.erase(key);
  return json;
}
inline nlohmann::json unsealed_state(const std::filesystem::path& checkpoint) {
  return without_checksums(contents_of(checkpoint / train::kStateFile));
}

/// Waits until something is so that will be so soon.
inline void wait_until(const std::string& what, const std::function<bool()>& is_so) {
  for (int tries = 0; !is_so(); ++tries) {
    if (tries == 60'000) throw std::runtime_error("it did not come to be that " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline void wait_for_steps(const std::filesystem::path& run, size_t steps) {
  wait_until(run.string() + " has taken " + std::to_string(steps) + " steps", [&] {
    return std::filesystem::exists(metrics_of(run)) && lines_of(contents_of(metrics_of(run))).size() >= steps;
  });
}

/// All files below a folder with their contents: for a test that something changed nothing.
inline std::vector<std::pair<std::string, std::string>> tree_of(const std::filesystem::path& folder) {
  std::vector<std::pair<std::string, std::string>> tree;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    tree.emplace_back(entry.path().lexically_relative(folder).string(),
                      entry.is_regular_file() ? contents_of(entry.path()) : "");
  std::sort(tree.begin(), tree.end());
  return tree;
}

}  // namespace adjoin::test
