#pragma once

#include <functional>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::testing {

/// Runs `fn(world)` on worlds of the given sizes: of threads, one after the other; or, where the test program was
/// started by mpirun, on the first ranks of the job, for each size that fits it and for the job's full size; of 1 and 2
/// ranks in a job of 2 alone, since jobs of 2 and 4 are both run. Assertions of gtest work on every rank, with the
/// rank and size of the world in their message. What `fn` throws fails the test (threads) or ends the job (MPI).
void for_each_world(const std::vector<int>& sizes, const std::function<void(const Communicator& world)>& fn);

/// The same in checked mode (LaunchOptions::checked): on threads always, of an MPI job that was started so.
void for_each_checked_world(const std::vector<int>& sizes, const std::function<void(const Communicator& world)>& fn);

/// The number of hosts of a world that for_each_world has made; its ranks are neighbours there.
int hosts_of(const Communicator& world);

/// Gives for_each_world the ranks of an MPI job; called by the tests' main.
void use_mpi_world(const Communicator& world);
/// Forgets them, before MPI is finalised.
void leave_mpi_world();

}  // namespace adjoin::testing
