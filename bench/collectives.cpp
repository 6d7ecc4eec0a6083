// Times the collectives by size on threads, on MPI itself and on MPI through this project, and the limit of memory. One run
// measures all of them on this machine and writes PREFIX.json, which tools/plot_collectives draws.
//
// usage: bench_collectives [--ranks 2,4] [--op NAME,…] [--sizes 64,1K,…] [--seconds PER_CONTENDER] [--out PREFIX]

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/lab/measure/collectives.hpp"
#include "adjoin/lab/measure/sizes.hpp"
#include "bench/contenders.hpp"

namespace {

using adjoin::Collective;
using adjoin::InvalidArgument;
using bench::Row;

struct Options {
  std::vector<int64_t> ranks{2, 4}, sizes;
  std::vector<Collective> collectives = adjoin::measure::collectives_from("");
  double seconds = 0.3;
  std::string out = "collectives";

  Options() {
    for (int64_t bytes = 64; bytes <= 256 << 20; bytes *= 4) sizes.push_back(bytes);
  }
};

Options options_from(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) throw InvalidArgument(words[i] + " needs a value");
    const std::string &option = words[i], &value = words[i + 1];
    if (option == "--ranks")
      options.ranks = adjoin::measure::all_bytes_of(value, option);
    else if (option == "--op")
      options.collectives = adjoin::measure::collectives_from(value);
    else if (option == "--sizes")
      options.sizes = adjoin::measure::all_bytes_of(value, option);
    else if (option == "--seconds")
      options.seconds = std::atof(value.c_str());
    else if (option == "--out")
      options.out = value;
    else
      throw InvalidArgument("there is no option " + option);
  }
  for (const auto& numbers : {options.ranks, options.sizes})
    for (const int64_t n : numbers) adjoin::require(n > 0, "expected ranks and sizes of at least 1, got 0");
  return options;
}

/// Runs as one rank of the MPI job: measures everything, and rank 0 writes a line of numbers for each row.
void measure_as_rank(const Options& options) {
  const adjoin::MpiSession session;
  std::ofstream lines;
  if (adjoin::mpi_job_rank() == 0) lines.open(options.out + ".rows");
  for (const Collective collective : options.collectives)
    for (const int64_t bytes : collective == Collective::barrier ? std::vector<int64_t>{0} : options.sizes) {
      const Row row = bench::measure_contenders(collective, bytes, options.seconds);
      if (!lines.is_open()) continue;
      lines << name(row.collective) << ' ' << row.ranks << ' ' << row.bytes << ' ' << row.threads_us << ' '
            << row.mpi_us << ' ' << row.mpi_backend_us << ' ' << row.processes_us << ' ' << row.limit_us << std::endl;
      std::printf(
          "%-14s %d %10lld  threads %11.2f  processes %11.2f (%5.2fx)  mpi %11.2f (%5.1fx)  through adjoin %+8.2f us "
          "(%+5.1f %%)  "
          "limit %11.2f\n",
          std::string(name(row.collective)).c_str(), row.ranks, static_cast<long long>(row.bytes), row.threads_us,
          row.processes_us, row.processes_us / row.threads_us, row.mpi_us, row.mpi_us / row.processes_us,
          row.mpi_backend_us - row.mpi_us, 100 * (row.mpi_backend_us / row.mpi_us - 1), row.limit_us);
      std::fflush(stdout);
    }
}

std::vector<Row> rows_in(const std::string& file) {
  std::ifstream lines(file);
  std::vector<Row> rows;
  Row row;
  for (std::string name; lines >> name >> row.ranks >> row.bytes >> row.threads_us >> row.mpi_us >>
                         row.mpi_backend_us >> row.processes_us >> row.limit_us;) {
    row.collective = *adjoin::collective_named(name);
    rows.push_back(row);
  }
  return rows;
}

/// Runs this program on `ranks` processes with the same options.
void run_job(int64_t ranks, const std::vector<std::string>& words) {
  std::vector<std::string> command{ADJOIN_MPIEXEC,  "-n", std::to_string(ranks), "--bind-to", "none", "--oversubscribe",
                                   "/proc/self/exe"};
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) > 0) command.back() = self;
  command.insert(command.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    execvp(arguments[0], arguments.data());
    std::perror(arguments[0]);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw adjoin::CommunicationError("the MPI job of " + std::to_string(ranks) + " ranks failed");
}

void write_json(const std::string& file, const std::vector<Row>& rows) {
  std::ofstream json(file);
  json << "{\"results\": [";
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    json << (i ? ",\n  " : "\n  ") << "{\"op\": \"" << name(row.collective) << "\", \"ranks\": " << row.ranks
         << ", \"bytes\": " << row.bytes << ", \"threads_us\": " << row.threads_us << ", \"mpi_us\": " << row.mpi_us
         << ", \"mpi_backend_us\": " << row.mpi_backend_us << ", \"processes_us\": " << row.processes_us
         << ", \"limit_us\": " << row.limit_us << "}";
  }
  json << "\n]}\n";
  if (!json.flush()) throw adjoin::IoError(file + ": cannot be written");
}

void measure_and_write(const Options& options, const std::vector<std::string>& words) {
  std::vector<Row> rows;
  for (const int64_t ranks : options.ranks) {
    run_job(ranks, words);
    const auto measured = rows_in(options.out + ".rows");
    rows.insert(rows.end(), measured.begin(), measured.end());
  }
  std::remove((options.out + ".rows").c_str());
  write_json(options.out + ".json", rows);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const Options options = options_from(words);
    if (adjoin::started_by_mpi())
      measure_as_rank(options);
    else
      measure_and_write(options, words);
  } catch (const std::exception& error) {
    std::cerr << "bench_collectives: " << error.what() << "\n";
    return 1;
  }
}
