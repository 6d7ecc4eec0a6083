#pragma once

#include <chrono>
#include <string>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::testing::programs {

/// Programs that are right, though for as long as `pause` a rank looks as if it would never come:
/// "late"     `rank` sleeps before a call of all;
/// "stopped"  its process is stopped (of MPI jobs only);
/// "leaves"   it returns after its part of a gather to which another has yet to come;
/// "frees"    it lets go of the group of such a gather, and waits in another.
void run_odd(const std::string& kind, int rank, const Communicator& world, std::chrono::milliseconds pause);

}  // namespace adjoin::testing::programs
