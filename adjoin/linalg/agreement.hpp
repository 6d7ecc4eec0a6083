#pragma once

#include <string>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::linalg {

/// Checks that `mine`, a description of the caller's arguments, is the same text on all ranks of the group, before they begin
/// work whose messages would not match. Code that runs in each step calls it in checked mode only (Communicator::checked).
///
/// Cost:   an all-gather of 8 bytes per rank; where texts differ, one of the texts is sent too
/// Throws: InvalidArgument, on all ranks, that says which rank has which text
void check_agreement(const char* operation, const std::string& mine, const Communicator& group);

}  // namespace adjoin::linalg
