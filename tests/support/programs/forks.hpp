#pragma once

#include <string>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::testing::programs {

/// Each rank makes a child by fork() in the middle of its work, and fails unless the child ends as it must and the ranks can go on:
/// "fork"          what child and parent write to memory that ranks share is the writer's alone;
/// "fork-calls"    the child is told that it cannot communicate;
/// "fork-returns"  it comes to the end of the rank's function;
/// "fork-throws"   it throws out of that.
void run_fork(const std::string& kind, const Communicator& world);

}  // namespace adjoin::testing::programs
