#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "python/bindings/launch.hpp"

namespace adjoin::python {
namespace {

using namespace py::literals;

thread_local bool is_in_launch = false;

/// mpirun hands Ctrl-C on as SIGTERM: here it raises KeyboardInterrupt too, where the script has nothing else for it.
void take_sigterm_for_ctrl_c() {
  const py::module_ signal = py::module_::import("signal"), threading = py::module_::import("threading");
  if (!threading.attr("current_thread")().is(threading.attr("main_thread")())) return;
  const py::object sigterm = signal.attr("SIGTERM");
  if (signal.attr("getsignal")(sigterm).equal(signal.attr("SIG_DFL")))
    signal.attr("signal")(sigterm, signal.attr("default_int_handler"));
}

/// MPI for the rest of the process, so that there may be several launches.
void keep_mpi() {
  if (started_by_mpi()) take_sigterm_for_ctrl_c();
  int initialized = 0, level = 0;
  MPI_Initialized(&initialized);
  if (initialized) return;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  py::module_::import("atexit").attr("register")(py::cpp_function([process = ProcessOwner()] {
    if (!process.is_here()) return;
    const py::gil_scoped_release released;
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Finalize();
  }));
}

/// What a rank of a job raised, as the library sees it; its traceback goes to `text`.
[[noreturn]] void throw_from_rank(const py::error_already_set& raised, std::string& text) {
  flush_output();
  if (raised.matches(PyExc_SystemExit)) throw RankExit{exit_code_of(raised)};
  if (raised.matches(PyExc_KeyboardInterrupt) && mpi_job_fails()) {  // mpirun's SIGTERM, which says so of another rank
    const py::gil_scoped_release released;
    std::this_thread::sleep_for(std::chrono::seconds(5));  // it ends this process
  }
  text = traceback_of(raised);
  throw_as_error(raised);
}

}  // namespace

int exit_code_of(const py::error_already_set& exit) {
  const py::object code = exit.value().attr("code");
  if (code.is_none()) return 0;
  if (py::isinstance<py::int_>(code)) return static_cast<int>(PyLong_AsUnsignedLongMask(code.ptr()) & 0xff);
  py::print(code, "file"_a = py::module_::import("sys").attr("stderr"));
  return 1;
}

std::string traceback_of(const py::error_already_set& raised) {
  const py::object trace = raised.trace() ? py::object(raised.trace()) : py::none();
  const py::object lines =
      py::module_::import("traceback").attr("format_exception")(raised.type(), raised.value(), trace);
  return py::str(py::str("").attr("join")(lines));
}

void flush_output() {
  try {
    for (const char* stream : {"stdout", "stderr"}) py::module_::import("sys").attr(stream).attr("flush")();
  } catch (py::error_already_set&) {  // closed; the cause is reported all the same
  }
}

[[noreturn]] void end_child(const std::optional<py::error_already_set>& raised) {
  int code = raised ? 1 : 0;
  if (raised && raised->matches(PyExc_SystemExit))
    code = exit_code_of(*raised);
  else if (raised)
    py::print(traceback_of(*raised), "file"_a = py::module_::import("sys").attr("stderr"), "end"_a = "");
  flush_output();
  std::_Exit(code);
}

bool is_in_mpi_launch() {
  return is_in_launch;
}

py::list launch_on_mpi(const py::function& work, LaunchOptions options) {
  keep_mpi();
  is_in_launch = true;
  py::list results;
  std::string traceback;
  options.at_failure = [&traceback, thread = std::this_thread::get_id()](const std::string&) {
    if (std::this_thread::get_id() == thread) std::fputs(traceback.c_str(), stderr);  // else the watchdog reports
    return "";
  };
  const auto run = [&](const Communicator& world) {
    const py::gil_scoped_acquire acquired;
    const ProcessOwner process;
    std::optional<py::error_already_set> raised;
    try {
      results.append(work(world));
    } catch (py::error_already_set& e) {
      raised.emplace(std::move(e));
    }
    if (!process.is_here()) end_child(raised);
    if (raised) throw_from_rank(*raised, traceback);
  };
  try {
    const py::gil_scoped_release released;
    launch_mpi(run, options);
  } catch (const RankExit& exit) {
    is_in_launch = false;
    PyErr_SetObject(PyExc_SystemExit, py::int_(exit.code).ptr());
    throw py::error_already_set();
  } catch (...) {
    is_in_launch = false;
    throw;
  }
  is_in_launch = false;
  return results;
}

Communicator mpi_world(const LaunchOptions& options) {
  keep_mpi();
  static std::optional<Communicator> kept;
  if (kept) return *kept;
  static MpiSession* session = nullptr;
  {
    const py::gil_scoped_release released;
    session = new MpiSession({.deadline = options.deadline, .checked = options.checked});
    kept.emplace(session->world());
  }
  py::module_::import("atexit").attr("register")(py::cpp_function([process = ProcessOwner()] {
    if (!process.is_here()) return;
    const py::gil_scoped_release released;
    kept.reset();
    delete std::exchange(session, nullptr);
  }));
  return *kept;
}

}  // namespace adjoin::python
