#pragma once

#include <functional>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::train {

/// Runs `work`, which does not communicate, on all workers of a world. If it fails on some, all workers throw the same error,
/// so that all continue alike: a DamagedFile if there is one, else the error of the first rank that failed.
void fail_alike(const Communicator& world, const std::function<void()>& work);

}  // namespace adjoin::train
