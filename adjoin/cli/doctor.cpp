#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/doctor_report.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/lab/machine.hpp"
#include "adjoin/lab/self_test.hpp"
#include "adjoin/nn/sequence/kept_promises.hpp"

namespace adjoin::cli {
namespace {

constexpr double kSecondsForBits = 20;
constexpr int64_t kMostSeconds = 1'000'000;

struct DoctorOptions {
  std::string ranks;
  HostMemory host_memory = HostMemory::automatic;
  int64_t timeout = 60;
  bool same_bits = false, json = false;
};

/// Ends the process, with a message about its current task, if that takes too long: a network that loses messages is one reason
/// to run the doctor.
class Deadline {
 public:
  explicit Deadline(int64_t seconds) : seconds_(seconds), watcher_([this](std::stop_token stop) { watch(stop); }) {}

  void begins(std::string_view what) {
    const std::lock_guard lock(mutex_);
    what_ = what;
    ++begun_;
    changed_.notify_all();
  }

 private:
  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const auto seen = begun_;
      const bool moved = changed_.wait_for(lock, stop, std::chrono::seconds(seconds_), [&] { return begun_ != seen; });
      if (moved || stop.stop_requested()) continue;
      std::cerr << "adjoin: rank " + std::to_string(mpi_job_rank()) + ": " + what_ + " did not end within " +
                       std::to_string(seconds_) + " s\n"
                << std::flush;
      std::this_thread::sleep_for(std::chrono::seconds(1));  // so that the other ranks can report where they are, too
      std::_Exit(1);
    }
  }

  const int64_t seconds_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string what_ = "the start";
  uint64_t begun_ = 0;
  std::jthread watcher_;
};

/// What each rank reports about its host.
struct HostRecord {
  char name[64] = "";
  int64_t usable_cores = 0, memory = 0, sharing = 0;
  char why_none[160] = "";  // "" if they share memory
};

/// The hosts of the group's ranks; on rank 0.
std::vector<Host> hosts_of(const Communicator& world, const Machine& machine) {
  const auto ranks = static_cast<size_t>(world.size());
  HostRecord mine;
  mine.usable_cores = machine.usable_cores;
  mine.memory = machine.memory_limit > 0 ? machine.memory_limit : machine.memory;
  machine.host.copy(mine.name, sizeof mine.name - 1);
  const HostMemoryUse use = host_memory_use();
  mine.sharing = use.ranks;
  use.why_none.copy(mine.why_none, sizeof mine.why_none - 1);
  std::vector<HostRecord> records(world.rank() == 0 ? ranks : 0);
  const auto bytes_of = [](void* data, size_t count) {
    return Buffer{data, static_cast<int64_t>(count * sizeof(HostRecord)), ElementType::uint8};
  };
  world.gather(bytes_of(&mine, 1), bytes_of(records.data(), records.size()),
               std::vector<int64_t>(ranks, sizeof(HostRecord)), 0);
  std::vector<Host> hosts;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    const HostRecord& record = records[rank];
    auto host = std::find_if(hosts.begin(), hosts.end(), [&](const Host& h) { return h.name == record.name; });
    if (host == hosts.end())
      host = hosts.insert(hosts.end(),
                          {record.name, {}, record.usable_cores, record.memory, record.sharing, record.why_none});
    host->ranks.push_back(static_cast<int>(rank));
  }
  return hosts;
}

Diagnosis diagnose(const Communicator& world, const Machine& machine, Deadline& deadline) {
  const auto begin = std::chrono::steady_clock::now();
  Diagnosis diagnosis;
  diagnosis.backend = started_by_mpi() ? "mpi" : "threads";
  diagnosis.ranks = world.size();
  diagnosis.mpi_thread_level = mpi_thread_level();
  diagnosis.operations = self_test(
      world, [&](std::string_view operation) { deadline.begins("the self-test of " + std::string(operation)); });
  diagnosis.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  deadline.begins("the list of hosts");
  diagnosis.hosts = hosts_of(world, machine);
  deadline.begins("the end");
  return diagnosis;
}

std::string failed_operations(const Diagnosis& diagnosis) {
  std::string names;
  for (const SelfTestResult& operation : diagnosis.operations)
    if (!operation.ok()) names += (names.empty() ? "" : ", ") + operation.operation;
  return names;
}

/// Tries the kernels, and throws where one of them breaks its promise.
void try_bits(Report report) {
  nn::fixed::ask_for_one_order();
  const std::vector<nn::fixed::KeptPromise> kernels = nn::fixed::kept_promises(kSecondsForBits);
  report.table(report.json["same_bits"], "lrr", kernels.size(), [&](size_t i) -> Row {
    return {{"kernel", kernels[i].kernel}, {"tried", kernels[i].tried}, {"broken", kernels[i].broken}};
  });
  report.print();
  flush_output();
  std::string broken;
  for (const auto& kernel : kernels)
    if (kernel.broken > 0) broken += (broken.empty() ? "" : ", ") + kernel.kernel;
  if (!broken.empty()) throw Error("on this machine these do not have the same bits in every piece: " + broken);
}

void run_doctor(const DoctorOptions& options) {
  const int ranks = ranks_from(options.ranks, 4);
  require(options.timeout >= 1 && options.timeout <= kMostSeconds, [&] {
    return "--timeout is " + std::to_string(options.timeout) + ", expected 1 to " + std::to_string(kMostSeconds) +
           " seconds";
  });
  const Facts facts = facts_of_this_process();
  Report report{options.json};
  add(report, facts);
  report.print_text();
  if (options.same_bits) return try_bits(std::move(report));
  Diagnosis diagnosis;
  {
    Deadline deadline(options.timeout);
    const auto work = [&](const Communicator& world) {
      Diagnosis of_rank = diagnose(world, facts.machine, deadline);
      if (world.rank() == 0 || started_by_mpi()) diagnosis = std::move(of_rank);
    };
    launch(ranks, work, {.host_memory = host_memory_or_environment(options.host_memory)});
  }
  add(report, diagnosis);
  report.print();
  const std::string failed = failed_operations(diagnosis);
  if (!failed.empty()) throw CommunicationError("these operations failed: " + failed);
}

}  // namespace

void add_doctor(Program& program) {
  auto options = std::make_shared<DoctorOptions>();
  add_command(
      program, program.app, "doctor", "Show what this machine offers, and try every operation between workers",
      [options] { run_doctor(*options); },
      {text("--ranks", options->ranks, "INTEGER",
            "Thread workers, up to 1024; under mpirun or srun the job's ranks [4]"),
       number("--timeout", options->timeout, "Seconds that one operation may take"),
       host_memory_row(options->host_memory),
       flag("--same-bits", options->same_bits,
            "Instead of the workers, try for 20 s whether an element of LibTorch's results has the same bits "
            "whatever is computed beside it and on any number of threads, in float32 and bfloat16, as adjoin calls its "
            "kernels for results that do not depend on the layout"),
       json_row(options->json, "object")});
}

}  // namespace adjoin::cli
