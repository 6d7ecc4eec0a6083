#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::train {

/// Waits until the work that each rank has begun has ended on all ranks, however long it takes (an invalid future counts as
/// ended). All ranks call it, and tell each other ten times a second that they are still working. So no call waits longer than
/// that: only a rank that stopped can exceed the deadline, not a rank that still writes. If the work takes longer than
/// `note_after`, rank 0 notes it on standard error, and again each time the duration has doubled; `what` says what the ranks
/// are doing, "writing runs/a".
/// Throws: what this rank's work threw, before the other ranks go on
void wait_for_all(const Communicator& world, const std::string& what, std::future<void>& work,
                  std::chrono::milliseconds note_after = std::chrono::minutes(1));

/// Runs `work` on a separate thread of each rank and waits as wait_for_all does: for writing large files to a slow disk. `work`
/// must not communicate, and must not make large tensors, as they would not count as this worker's memory.
void on_all(const Communicator& world, const std::string& what, const std::function<void()>& work,
            std::chrono::milliseconds note_after = std::chrono::minutes(1));

/// The same where only rank 0 works. Throws: what `work` throws, on rank 0
void on_root(const Communicator& world, const std::string& what, const std::function<void()>& work,
             std::chrono::milliseconds note_after = std::chrono::minutes(1));

}  // namespace adjoin::train
