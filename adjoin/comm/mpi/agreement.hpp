#pragma once

#include <mpi.h>

#include <span>

#include "adjoin/base/observer.hpp"

namespace adjoin::mpi {

/// Compares the collective that each rank of `comm` is about to begin; called by all of them, whatever they begin.
///
/// Throws: CommunicationError with every rank's call, the same on all ranks, where they do not fit
/// Cost: one all-gather of 48 bytes a rank; for an all_to_all also an all-to-all of its counts and an all-reduce
void check_agreement(MPI_Comm comm, const Operation& operation, std::span<const int> world_ranks);

}  // namespace adjoin::mpi
