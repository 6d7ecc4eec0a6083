#pragma once

#include <string>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::linalg {

/// Checks that `mine`, a description of what the caller was given, is the same text on all ranks of the group, before
/// work begins whose messages would not fit. What runs in each step calls it in checked mode alone (Communicator::checked).
///
/// Cost:   an all-gather of 8 bytes a rank; where texts differ, one of the texts
/// Throws: InvalidArgument, on all ranks, that says which rank has what
void check_agreement(const char* operation, const std::string& mine, const Communicator& group);

}  // namespace adjoin::linalg
