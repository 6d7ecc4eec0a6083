#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::train {

/// Runs `work` on rank 0 while the other ranks wait, however long it takes: writing a large file to a slow disk.
///
/// Called by all ranks. Rank 0 works on a thread of its own, and tells the others ten times a second that it is at it. So
/// no call waits for longer than that, and what meets the deadline is a rank 0 that stopped, not one that writes. Work
/// that is not done after `note_after` is noted on standard error, and again each time as much has passed: `what` says
/// what rank 0 is doing, "writing runs/a/model.safetensors".
/// `work` does not communicate, and makes no large tensors, as they would not count as this worker's memory.
/// Throws: what `work` throws, on rank 0
void on_root(const Communicator& world, const std::string& what, const std::function<void()>& work,
             std::chrono::milliseconds note_after = std::chrono::minutes(1));

}  // namespace adjoin::train
