#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::testing::programs {

/// What ranks have begun goes wrong, by the culprit's fault:
/// "begun-mismatch"  it begins another collective;
/// "begun-left"      it returns while another rank has yet to begin what it has begun;
/// "begun-throws"    it throws an exception;
/// "begun-caught"    the same, and it catches it and goes on;
/// "begun-late"      it begins nothing for a minute;
/// "begun-kill"      it is killed.
void run_begun(const std::string& kind, int culprit, const Communicator& world);

/// Calls a rank's function where each rank is on another host.
void run_between_hosts(const std::function<void(const Communicator&)>& fn);

/// Rank 1 gives rank 0 `sent` elements where rank 0 expects `expected`, in a call that is begun or not.
void exchange_other_lengths(int64_t sent, int64_t expected, bool begins, const Communicator& world);

}  // namespace adjoin::testing::programs
