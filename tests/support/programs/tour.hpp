#pragma once

namespace adjoin::testing::programs {

/// Makes calls of every kind in a world of MPI, of which each must end rightly or with the job:
/// 0  in memory that the processes of the host share;
/// 1  by MPI's messages;
/// 2  as on hosts of two ranks each.
void run_tour(int kind);

}  // namespace adjoin::testing::programs
