#include "examples/support/example.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"

namespace adjoin::example {
namespace {

constexpr int kFailure = 1, kUsage = 2;
constexpr int kMostRanks = 1024, kMostSteps = 1'000'000;

int fail(int code, const char* message) {
  if (mpi_job_rank() == 0) std::fprintf(stderr, "%s\n", message);
  return code;
}

/// 0 if all output was written; otherwise prints a message and returns kUsage.
int flushed() {
  std::cout << std::flush;
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()
             ? 0
             : fail(kUsage, "standard output: cannot be written");
}

/// A whole decimal number from 1 to `most`, and nothing else.
int number_from(const std::string& text, const std::string& option, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= most, [&] {
    return option + " is " + (text.empty() ? "empty" : text) + ", expected 1 to " + std::to_string(most);
  });
  return number;
}

void add_options(CLI::App& app, const About& about, Options& options) {
  const std::function<void(const std::string&)> read = [&](const std::string& text) {
    options.ranks = number_from(text, "--ranks", kMostRanks);
  };
  app.add_option_function("--ranks", read, "Workers [" + std::to_string(about.ranks) + ", or the MPI job's processes]")
      ->option_text("RANKS");
  app.add_option("--backend", options.backend,
                 about.threads_only
                     ? "What the workers are: threads alone [auto]"
                     : "What the workers are; auto: processes\nunder mpirun or srun, else threads [auto]")
      ->option_text("auto|threads|mpi");
  app.add_flag("--json", options.json, "Print one JSON object instead of text [false]");
  if (about.add_options) about.add_options(app);
}

void check(Options& options, const About& about, bool ranks_are_given) {
  const std::string& backend = options.backend;
  require(backend == "auto" || backend == "threads" || backend == "mpi",
          [&] { return "--backend is " + backend + ", expected auto, threads or mpi"; });
  require(backend != "mpi" || !about.threads_only, "--backend mpi: the workers of this example are threads");
  require(backend != "mpi" || started_by_mpi(), "--backend mpi: start the program with mpirun or srun");
  require(backend != "threads" || !started_by_mpi() || about.threads_only,
          "--backend threads: the program was started by mpirun or srun, where each process is one rank");
  const bool is_job = started_by_mpi() && !about.threads_only;
  if (!ranks_are_given) options.ranks = is_job ? mpi_job_size() : about.ranks;
  require(!is_job || options.ranks == mpi_job_size(), [&] {
    return "--ranks is " + std::to_string(options.ranks) + ", the MPI job has " + std::to_string(mpi_job_size());
  });
}

int follow(int argc, char** argv, const About& about, const std::function<void(const Options& options)>& work) {
  Options options{.backend = "auto"};
  CLI::App app(about.text, std::filesystem::path(argc > 0 ? argv[0] : "").filename());
  add_options(app, about, options);
  try {
    app.parse(argc, argv);
    check(options, about, /*ranks_are_given=*/app.count("--ranks") > 0);
  } catch (const CLI::Success& wish) {  // --help
    return mpi_job_rank() == 0 ? app.exit(wish) + flushed() : 0;
  } catch (const std::exception& error) {
    return fail(kUsage, error.what());
  }
  if (about.threads_only && mpi_job_rank() != 0) return 0;
  try {
    work(options);
    return flushed();
  } catch (const InvalidArgument& error) {
    return fail(kUsage, error.what());
  } catch (const IoError& error) {
    return fail(kUsage, error.what());
  } catch (const std::exception& error) {
    return fail(kFailure, error.what());
  }
}

}  // namespace

void Report::line(const char* format, ...) const {
  if (json_ || silent_) return;
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
}

void Report::value(const std::string& name, double number) {
  values_.emplace_back(name, nlohmann::json(number).dump());
}

void Report::value(const std::string& name, int64_t number) {
  values_.emplace_back(name, nlohmann::json(number).dump());
}

void Report::value(const std::string& name, const std::string& text) {
  values_.emplace_back(name, nlohmann::json(text).dump());
}

void Report::value(const std::string& name, const std::vector<double>& numbers) {
  values_.emplace_back(name, nlohmann::json(numbers).dump());
}

void Report::end() const {
  if (!json_ || silent_) return;
  std::string object;
  for (const auto& [name, value] : values_)
    object += (object.empty() ? "" : ",") + nlohmann::json(name).dump() + ":" + value;
  std::printf("{%s}\n", object.c_str());
}

void add_steps(CLI::App& app, int64_t& steps, const std::string& text) {
  const std::function<void(const std::string&)> read = [&steps](const std::string& number) {
    steps = number_from(number, "--steps", kMostSteps);
  };
  app.add_option_function("--steps", read, text)->option_text("STEPS");
}

void ensure(bool condition, const char* message) {
  if (!condition) throw Error(message);
}

std::pair<int, int> nearly_square(int workers) {
  int rows = 1;
  for (int divisor = 1; divisor * divisor <= workers; ++divisor)
    if (workers % divisor == 0) rows = divisor;
  return {rows, workers / rows};
}

int run_with(int argc, char** argv, const About& about,
             const std::function<void(const Options& options, Report& report)>& work) {
  return follow(argc, argv, about, [&](const Options& options) {
    Report report(options.json, /*silent=*/mpi_job_rank() != 0);
    work(options, report);
    report.end();
  });
}

int run(int argc, char** argv, const About& about,
        const std::function<void(const Communicator& world, Report& report)>& work) {
  return follow(argc, argv, about, [&](const Options& options) {
    launch(options.ranks, [&](const Communicator& world) {
      Report report(options.json, /*silent=*/world.rank() != 0);
      work(world, report);
      report.end();
    });
  });
}

}  // namespace adjoin::example
