#pragma once

#include <optional>
#include <string>

#include "adjoin/comm/launch.hpp"
#include "python/bindings/bindings.hpp"

/// What a launch on threads and one under MPI have in common.
namespace adjoin::python {

/// What was raised in a rank, as the library sees it.
[[noreturn]] void throw_as_error(const py::error_already_set& raised);

/// The exit code of a SystemExit, as the interpreter understands it; a text is printed.
int exit_code_of(const py::error_already_set& exit);
std::string traceback_of(const py::error_already_set& raised);
/// What Python has kept of its output.
void flush_output();
/// Ends a child that a rank has made by os.fork() and that comes to the end of the rank's function: what follows belongs to its parent.
[[noreturn]] void end_child(const std::optional<py::error_already_set>& raised);

/// Runs work(world) as this process's rank of the MPI job.
py::list launch_on_mpi(const py::function& work, LaunchOptions options);
bool is_in_mpi_launch();
/// The MPI job's world without a launch around it, until the process ends.
Communicator mpi_world(const LaunchOptions& options);

}  // namespace adjoin::python
