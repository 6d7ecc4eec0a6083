#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "adjoin/comm/mpi/pending_table.hpp"

namespace adjoin::mpi {

/// A thread that looks at a host's table again and again and calls `report`, once, with what can never end or takes longer
/// than the deadline.
///
/// Processes write while it reads, and MPI may have moved a message whose owner has not heard of it. So what looks stuck
/// is believed when it has looked so, unchanged, for a second.
std::jthread watch(PendingTable table, int world_size, std::chrono::milliseconds deadline,
                   std::function<void(const std::string&)> report);

}  // namespace adjoin::mpi
