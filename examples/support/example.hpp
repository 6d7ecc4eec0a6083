#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/comm/launch.hpp"

namespace CLI {
class App;
}

namespace adjoin::example {

/// What every example understands beside --help.
struct Options {
  int ranks = 0;
  std::string backend;  ///< threads, mpi, or auto: MPI processes under mpirun or srun, else threads
  bool json = false;
};

/// What an example says of itself.
struct About {
  const char* text;                              ///< what --help says of it
  int ranks = 4;                                 ///< workers, where it was not told how many
  bool threads_only = false;                     ///< its workers are threads, under mpirun those of rank 0
  std::function<void(CLI::App&)> add_options{};  ///< options of its own
};

/// What an example has to say: lines of text as they come, or with --json one object of the values when it ends.
/// Silent on all ranks but 0 of the world.
class Report {
 public:
  explicit Report(bool json, bool silent = false) : json_(json), silent_(silent) {}

  /// Prints a line of text, formatted as by printf.
  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) const;
  /// Adds a member of the object.
  void value(const std::string& name, double number);
  void value(const std::string& name, int64_t number);
  void value(const std::string& name, const std::string& text);
  void value(const std::string& name, const std::vector<double>& numbers);
  /// Prints the object.
  void end() const;

 private:
  bool json_, silent_;
  std::vector<std::pair<std::string, std::string>> values_;  // as JSON
};

/// Adds --steps to a command, 1 to a million; `text` is what --help says of it, the default included.
void add_steps(CLI::App& app, int64_t& steps, const std::string& text);

/// Throws Error with `message`, by which the example fails, unless its work came to what it must.
void ensure(bool condition, const char* message);

/// Two factors of a number of workers, which lie as near to each other as they can; the first is no larger.
std::pair<int, int> nearly_square(int workers);

/// Runs `work` on the workers that the command line asks for, and returns the exit code: 2 for a wrong request and for
/// a file that cannot be read or written, 1 where the work fails otherwise, with one message on standard error.
int run(int argc, char** argv, const About& about,
        const std::function<void(const Communicator& world, Report& report)>& work);

/// The same for an example that launches its workers itself: `work` runs once, under mpirun in every process of the job
/// (with threads_only in that of rank 0 alone).
int run_with(int argc, char** argv, const About& about,
             const std::function<void(const Options& options, Report& report)>& work);

}  // namespace adjoin::example
