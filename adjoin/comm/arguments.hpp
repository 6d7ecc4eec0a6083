#pragma once

#include <string>

#include "adjoin/comm/contract/call.hpp"

/// What each operation requires of its arguments. All functions throw InvalidArgument that says where, what was expected and
/// what came.
namespace adjoin::arguments {

/// Checks a collective, or messages.
/// Cost: no allocation; a pass over the counts
void check(const Call& call);

/// Checks that a rank is one of the group.
void check_rank(const Call& call, const char* role, int rank);

[[noreturn]] void fail(const Call& call, const std::string& expected, const std::string& came);

}  // namespace adjoin::arguments
