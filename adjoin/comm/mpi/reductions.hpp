#pragma once

#include <mpi.h>

#include "adjoin/comm/reduction.hpp"

namespace adjoin::mpi {

/// Of each element type another one, so that a reduction of ours knows what it is given.
MPI_Datatype type_of(ElementType type);

/// What MPI applies to two operands; finish_reduction makes the rest. It lives as long as MPI.
MPI_Op operation_of(ElementType type, Reduction reduction);

}  // namespace adjoin::mpi
