#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// The result of the self-test for one operation.
struct SelfTestResult {
  std::string operation;  // "all_reduce"
  std::string failure;    // "": all was correct; else the first failure: where, what was expected and what came
  bool ok() const { return failure.empty(); }
};

/// Tries every operation on this group, with every element type and with uneven, zero and long counts, and compares
/// each result with the correct one. Called by all ranks of the group; rank 0 gets the failures of all ranks, the
/// others their own. `begins` is called before each operation, so that one that never ends can be named.
/// Cost: tens of milliseconds on one host; messages of at most a few megabytes.
/// Throws: CommunicationError that names the operation that threw.
std::vector<SelfTestResult> self_test(const Communicator& group,
                                      const std::function<void(std::string_view operation)>& begins = {});

}  // namespace adjoin
