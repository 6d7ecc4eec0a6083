#include "python/bindings/launch.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "adjoin/base/carried_state.hpp"
#include "adjoin/base/cores.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/base/shared_memory.hpp"
#include "adjoin/train/interrupt.hpp"
#include "python/caller.hpp"

namespace adjoin::python {
namespace {

using namespace py::literals;

/// The classes of adjoin/_errors.py; they live as long as the process.
struct Errors {
  PyObject *error, *invalid_argument, *communication_error, *io_error, *internal_error;
};
const Errors* errors = nullptr;

/// What the threads of a launch and the one that launched them share; guarded by the interpreter's lock, but for the atomics.
struct Launch {
  struct Rank {
    unsigned long thread = 0;  // as Python counts them; 0: it has returned
    std::atomic<bool> in_call = false;
    py::object result;
  };
  explicit Launch(int ranks) : ranks(static_cast<size_t>(ranks)) {}

  std::vector<Rank> ranks;
  std::optional<Communicator> world;  // of any rank, by which all are aborted
  py::object first;                   // what the first rank raised that raised anything
  int first_rank = -1;
  std::atomic<bool> interrupted = false;
};
thread_local Launch* launched_by = nullptr;  // on the thread of a rank
thread_local int launched_rank = 0;

void set_error(PyObject* type, const std::string& text) {
  PyErr_SetString(type, text.c_str());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const InvalidArgument& e) {
    set_error(errors->invalid_argument, e.what());
  } catch (const CommunicationError& e) {
    const bool interrupted = launched_by && launched_by->interrupted;
    set_error(interrupted ? PyExc_KeyboardInterrupt : errors->communication_error, e.what());
  } catch (const IoError& e) {
    set_error(errors->io_error, e.what());
  } catch (const InternalError& e) {
    set_error(errors->internal_error, e.what());
  } catch (const train::Interrupted& e) {
    set_error(PyExc_KeyboardInterrupt, e.what());
  } catch (const Error& e) {
    set_error(errors->error, e.what());
  } catch (const c10::Error& e) {
    set_error(PyExc_RuntimeError, e.what_without_backtrace());
  }
}

LaunchOptions options_of(const std::optional<double>& deadline, const std::optional<bool>& checked) {
  LaunchOptions options;
  if (deadline) {
    require(*deadline >= 0.001, "launch: expected a deadline of at least 0.001 seconds");
    options.deadline = std::chrono::milliseconds(static_cast<int64_t>(std::min(*deadline, 1e9) * 1000));
  }
  if (checked) options.checked = *checked;
  return options;
}

/// A rank on a thread.
void run_rank(const py::function& work, const Communicator& world, Launch& launch, int threads) {
  launched_by = &launch;
  launched_rank = world.rank();
  at::set_num_threads(threads);  // of this thread alone
  const py::gil_scoped_acquire acquired;
  Launch::Rank& mine = launch.ranks[static_cast<size_t>(world.rank())];
  if (!launch.world) launch.world = world;
  mine.thread = PyThread_get_thread_ident();
  const ProcessOwner process;
  std::optional<py::error_already_set> raised;
  try {
    mine.result = work(world);
  } catch (py::error_already_set& e) {
    raised.emplace(std::move(e));
  }
  if (!process.is_here()) end_child(raised);
  mine.thread = 0;
  if (!raised) return;
  if (!launch.first) {
    launch.first = raised->value();
    if (raised->trace()) PyException_SetTraceback(launch.first.ptr(), raised->trace().ptr());
    launch.first_rank = world.rank();
  }
  throw_as_error(*raised);
}

/// Ends all ranks: those in calls by the world, the others by what Python has for it.
void interrupt(Launch& launch) {
  launch.interrupted = true;
  for (const Launch::Rank& rank : launch.ranks)
    if (rank.thread != 0 && !rank.in_call) PyThreadState_SetAsyncExc(rank.thread, PyExc_KeyboardInterrupt);
  if (launch.world) {
    const py::gil_scoped_release released;
    launch.world->abort("interrupted");
  }
}

/// Ends this process as Ctrl-C ends one that has nothing for it.
[[noreturn]] void end_interrupted() {
  flush_output();
  std::signal(SIGINT, SIG_DFL);
  ::raise(SIGINT);
  std::_Exit(128 + SIGINT);
}

/// Raises what the first rank raised; else what the library threw.
void throw_cause(Launch& launch, const std::exception_ptr& thrown) {
  if (!launch.first) std::rethrow_exception(thrown);
  const py::object error = launch.first;
  // What ended in LibTorch's backward comes out of it as a RuntimeError of the same text.
  if (py::type::handle_of(error).is(py::handle(PyExc_RuntimeError))) {
    try {
      std::rethrow_exception(thrown);
    } catch (const CommunicationError& e) {
      if (std::string(py::str(error)).find(e.what()) != std::string::npos) std::rethrow_exception(thrown);
    } catch (...) {
    }
  }
  const std::string note = "on rank " + std::to_string(launch.first_rank) + " of adjoin.launch";
  if (py::hasattr(error, "add_note")) error.attr("add_note")(note);
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

py::list launch_on_threads(const py::function& work, int ranks, const LaunchOptions& options) {
  require(ranks >= 1, "launch: expected at least 1 rank, got " + std::to_string(ranks));
  Launch launch(ranks);
  const int all_threads = at::get_num_threads(), threads = std::max(1, all_threads / ranks);
  // In the child of a fork the first call replaces LibTorch's pool of threads, which two threads must not do at once.
  at::set_num_threads(all_threads);
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::exception_ptr thrown;
  std::thread runner([&, give_state = carried_state()] {
    give_state();
    try {
      launch_threads(
          ranks, [&](const Communicator& world) { run_rank(work, world, launch, threads); }, options);
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    is_done = true;
    changed.notify_one();
  });
  std::optional<py::error_already_set> interruption;
  for (int waits = 0;; ++waits) {
    {
      const py::gil_scoped_release released;
      std::unique_lock lock(mutex);
      if (changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return is_done; })) break;
    }
    if (interruption && waits == 20)  // after a second
      std::fprintf(stderr, "adjoin: a rank has not ended yet; interrupt again to end now\n");
    if (PyErr_CheckSignals() == 0) continue;
    if (interruption) end_interrupted();
    interruption.emplace();
    interrupt(launch);
    waits = 0;
  }
  {
    const py::gil_scoped_release released;
    runner.join();
    launch.world.reset();
  }
  at::set_num_threads(all_threads);  // of threads that begin later
  if (interruption) throw std::move(*interruption);
  if (thrown) throw_cause(launch, thrown);
  py::list results;
  for (Launch::Rank& rank : launch.ranks) results.append(std::move(rank.result));
  return results;
}

py::list python_launch(const py::function& work, const std::optional<int>& ranks, const std::optional<double>& deadline,
                       const std::optional<bool>& checked) {
  require(!launched_by && !is_in_mpi_launch(),
          "launch: a rank cannot launch ranks; for groups of these use world.split or world.subset");
  const LaunchOptions options = options_of(deadline, checked);
  require(!ranks || !started_by_mpi() || *ranks == mpi_job_size(), [&] {
    return "launch: expected a job of " + std::to_string(*ranks) + " ranks, got one of " +
           std::to_string(mpi_job_size()) + " from mpirun";
  });
  return started_by_mpi() ? launch_on_mpi(work, options) : launch_on_threads(work, ranks.value_or(1), options);
}

}  // namespace

[[noreturn]] void throw_as_error(const py::error_already_set& raised) {
  std::string text = py::str(raised.value());
  if (raised.matches(errors->invalid_argument)) throw InvalidArgument(text);
  if (raised.matches(errors->communication_error)) throw CommunicationError(text);
  if (raised.matches(errors->io_error)) throw IoError(text);
  if (raised.matches(errors->internal_error)) throw InternalError(text);
  const std::string type = py::str(raised.type().attr("__name__"));
  throw Error(text.empty() ? type : type + ": " + text);
}

Where caller() {
  return line_of_caller().value_or(Where("python", 0));
}

InCall::InCall() {
  if (launched_by) was_in_call_ = launched_by->ranks[static_cast<size_t>(launched_rank)].in_call.exchange(true);
}
InCall::~InCall() {
  if (launched_by) launched_by->ranks[static_cast<size_t>(launched_rank)].in_call.store(was_in_call_);
}

void bind_errors(py::module_& m) {
  const py::module_ classes = py::module_::import("adjoin._errors");
  const auto kept = [&](const char* name) { return classes.attr(name).cast<py::object>().release().ptr(); };
  errors = new Errors{kept("Error"), kept("InvalidArgument"), kept("CommunicationError"), kept("IoError"),
                      kept("InternalError")};
  py::register_local_exception_translator(&translate);
  m.def("set_inner_folders", &set_inner_folders);
  m.def("use_memory", [](uintptr_t variable) {  // of _c10d
    SharedMemory::use(*reinterpret_cast<SharedMemory::Current*>(variable));
  });
}

void bind_launch(py::module_& m) {
  m.def("launch", &python_launch, "work"_a, "ranks"_a = py::none(), py::kw_only(), "deadline"_a = py::none(),
        "checked"_a = py::none(),
        "Runs work(world) on `ranks` threads of this process, or under mpirun as this process's rank; gives what each "
        "rank here returned.\n"
        "deadline: seconds after which a call that waits ends the job; checked: whether MPI calls are compared\n"
        "Raises what the first rank raised, with its traceback and a note of its rank; CommunicationError with the "
        "lines of all\n"
        "pending calls where calls wait for each other or do not match. Under mpirun a rank that raises ends the job.");
  m.def(
      "mpi_world",
      [](const std::optional<double>& deadline, const std::optional<bool>& checked) {
        return mpi_world(options_of(deadline, checked));
      },
      py::kw_only(), "deadline"_a = py::none(), "checked"_a = py::none(),
      "The MPI job's ranks, without a launch around them, for as long as the process lives. The first call is made by "
      "all ranks of the job together.");
  m.def("started_by_mpi", &started_by_mpi, "Whether mpirun or srun started this process as a rank of a job.");
  m.def("mpi_job_size", &mpi_job_size, "The ranks of that job; 1 where there is none.");
  m.def("mpi_job_rank", &mpi_job_rank, "This process's rank in that job; 0 where there is none.");
}

}  // namespace adjoin::python
