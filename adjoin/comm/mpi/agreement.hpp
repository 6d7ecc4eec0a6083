#pragma once

#include "adjoin/comm/call.hpp"
#include "adjoin/comm/mpi/group.hpp"

namespace adjoin::mpi {

/// Compares the collective that each rank of `group` is about to begin; called by all of them, whatever they begin.
///
/// Throws: CommunicationError with every rank's call, the same on all ranks, where they do not fit
/// Cost: one all-gather of 32 bytes a rank; for an all_to_all also an all-to-all of its counts and an all-reduce
void check_agreement(const Group& group, const Call& call);

}  // namespace adjoin::mpi
