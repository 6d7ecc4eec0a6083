#pragma once

#include <functional>

namespace adjoin {

/// Registers `capture`, which is called on a thread that launches ranks on threads; what it returns is called on the thread of each
/// rank before the rank begins. So modes that a library keeps for each thread hold in the ranks as they do around the launch, and
/// as they do where the rank is a process. Returns true.
bool carry_to_ranks(std::function<void()> (*capture)());

/// The state of this thread: a function that gives it to another.
std::function<void()> carried_state();

}  // namespace adjoin
