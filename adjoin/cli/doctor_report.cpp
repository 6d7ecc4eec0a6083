#include "adjoin/cli/doctor_report.hpp"

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <ostream>
#include <string_view>

#include "adjoin/base/text.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/libtorch.hpp"

namespace adjoin::cli {
namespace {

std::string gibibytes(int64_t bytes) {
  return formatted("%.1f GiB", static_cast<double>(bytes) / (1 << 30));
}

void print_row(std::ostream& out, std::string_view name, const std::string& text) {
  out << std::left << std::setw(12) << name << text << '\n';
}

void print_hosts(std::ostream& out, const std::vector<Host>& hosts) {
  size_t name_width = 0, rank_width = 0, core_width = 0;
  for (const Host& host : hosts) {
    name_width = std::max(name_width, host.name.size());
    rank_width = std::max(rank_width, ranges_text(host.ranks).size());
    core_width = std::max(core_width, counted(host.usable_cores, "core").size());
  }
  const auto column = [&](size_t width) { return std::setw(static_cast<int>(width) + 2); };
  for (const Host& host : hosts)
    out << std::left << std::setw(12) << "" << column(name_width) << host.name
        << (host.ranks.size() == 1 ? "rank  " : "ranks ") << column(rank_width) << ranges_text(host.ranks)
        << column(core_width) << counted(host.usable_cores, "core") << gibibytes(host.memory) << '\n';
  for (const Host& host : hosts)
    print_row(out, &host == &hosts.front() ? "host memory" : "",
              (hosts.size() > 1 ? host.name + ": " : "") + (host.sharing > 0
                                                                ? counted(host.sharing, "rank") + " share their memory"
                                                                : "not shared: " + host.why_none));
}

std::string starter() {
  if (!started_by_mpi()) return "";
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr && std::getenv("SLURM_STEP_ID") != nullptr) return "srun";
  return "mpirun";
}

/// Warns about cores that a process may not use, and about Slurm, which starts the tasks of a job even where they cannot find
/// each other.
std::string start_warning(const Machine& machine) {
  // OpenMPI sets this variable if it has bound the process.
  if (std::getenv("OMPI_MCA_orte_bound_at_launch") != nullptr && machine.usable_cores < machine.cores)
    return "mpirun binds this process to " + counted(machine.usable_cores, "core") + " of " +
           std::to_string(machine.cores) + "; with --bind-to none it may use all";
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (started_by_mpi() || tasks == nullptr || std::atoi(tasks) < 2) return "";
  return "srun started " + std::string(tasks) + " tasks that cannot find each other: use srun --mpi=pmix";
}

}  // namespace

Facts facts_of_this_process() {
  const Machine machine = this_machine();
  return {.machine = machine,
          .mpi_library = mpi_library_version(),
          .started_by = starter(),
          .libtorch_version = libtorch_version(),
          .libtorch_simd = libtorch_simd(),
          .libtorch_devices = libtorch_devices(),
          .libtorch_threads = libtorch_threads(),
          .warning = start_warning(machine)};
}

void add(Report& report, const Facts& facts) {
  const Machine& m = facts.machine;
  std::ostream& out = report.text;
  print_row(out, "host", m.host);
  print_row(out, "cores",
            std::to_string(m.usable_cores) + " usable of " + std::to_string(m.cores) + ", " +
                counted(m.numa_nodes, "NUMA node") + ", " + m.simd);
  print_row(
      out, "memory",
      gibibytes(m.memory) + (m.memory_limit > 0 ? ", of which its cgroup allows " + gibibytes(m.memory_limit) : ""));
  print_row(out, "MPI",
            facts.mpi_library + (facts.started_by.empty() ? ", which has not started this process"
                                                          : ", this process started by " + facts.started_by));
  print_row(out, "LibTorch",
            facts.libtorch_version + ", " + counted(facts.libtorch_threads, "thread") + ", " + facts.libtorch_simd +
                ", " + facts.libtorch_devices);
  if (!facts.warning.empty()) print_row(out, "warning", facts.warning);
  report.json = {{"host", m.host},
                 {"cores", m.cores},
                 {"usable_cores", m.usable_cores},
                 {"numa_nodes", m.numa_nodes},
                 {"simd", m.simd},
                 {"memory_bytes", m.memory},
                 {"memory_limit_bytes", m.memory_limit > 0 ? Json(m.memory_limit) : nullptr},
                 {"mpi", {{"library", facts.mpi_library}, {"started_by", or_null(facts.started_by)}}},
                 {"libtorch",
                  {{"version", facts.libtorch_version},
                   {"threads", facts.libtorch_threads},
                   {"simd", facts.libtorch_simd},
                   {"devices", facts.libtorch_devices}}},
                 {"warning", or_null(facts.warning)}};
}

void add(Report& report, const Diagnosis& d) {
  std::ostream& out = report.text;
  const auto hosts = static_cast<int64_t>(d.hosts.size());
  if (d.backend == "threads") {
    print_row(out, "ranks", counted(d.ranks, "thread") + " of this process");
  } else {
    print_row(
        out, "ranks",
        std::to_string(d.ranks) + " over MPI on " + counted(hosts, "host") + ", thread level " + d.mpi_thread_level);
    print_hosts(out, d.hosts);
  }
  out << '\n';
  for (const SelfTestResult& operation : d.operations) {
    out << "  " << std::left << std::setw(16) << operation.operation;
    out << (operation.ok() ? "ok" : "FAILED  ") << operation.failure << '\n';
  }
  const auto good = std::count_if(d.operations.begin(), d.operations.end(), [](const auto& o) { return o.ok(); });
  out << good << " of " << d.operations.size() << " operations ok in " << fixed(d.seconds, 2) << " s\n";
  const auto host_json = [](const Host& host) -> Json {
    return {{"host", host.name},
            {"ranks", host.ranks},
            {"usable_cores", host.usable_cores},
            {"memory_bytes", host.memory},
            {"ranks_sharing_memory", host.sharing},
            {"why_no_host_memory", or_null(host.why_none)}};
  };
  const auto operation_json = [](const SelfTestResult& operation) -> Json {
    return {{"operation", operation.operation}, {"ok", operation.ok()}, {"failure", or_null(operation.failure)}};
  };
  report.json["mpi"]["thread_level"] = or_null(d.mpi_thread_level);
  report.json.update({{"backend", d.backend},
                      {"ranks", d.ranks},
                      {"hosts", list_of(d.hosts, host_json)},
                      {"operations", list_of(d.operations, operation_json)},
                      {"seconds", d.seconds},
                      {"ok", good == std::ssize(d.operations)}});
}

}  // namespace adjoin::cli
