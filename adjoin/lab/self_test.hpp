#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// What the self-test found of one operation.
struct SelfTestResult {
  std::string operation;  // "all_reduce"
  std::string failure;    // "": all was right; else where, what was expected and what came, of the first failure
  bool ok() const { return failure.empty(); }
};

/// Tries every operation on this group, with every element type and with uneven, zero and long counts, and compares
/// each result with what it must be. Called by all ranks of the group; rank 0 gets the failures of all ranks, the
/// others their own. `begins` is called before each operation: one that never ends can then be named.
/// Cost: tens of milliseconds on one host; at most a few megabytes a message.
/// Throws: CommunicationError that names the operation which threw.
std::vector<SelfTestResult> self_test(const Communicator& group,
                                      const std::function<void(std::string_view operation)>& begins = {});

}  // namespace adjoin
