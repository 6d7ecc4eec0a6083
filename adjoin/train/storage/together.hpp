#pragma once

#include <functional>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::train {

/// Runs `work`, which does not communicate, on all workers of a world. Where it fails on some, all throw what one of them threw,
/// so that they go on alike: a DamagedFile before other errors, else that of the first rank.
void together(const Communicator& world, const std::function<void()>& work);

}  // namespace adjoin::train
