#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::train {

/// Waits until work that each rank has begun has ended on all of them (a future without a result has), however long it takes.
/// Called by all ranks, which tell each other ten times a second that they are at it. So no call waits for longer than that, and
/// what meets the deadline is a rank that stopped, not one that writes. What is not done after `note_after` is noted on standard
/// error by rank 0, and again each time twice as long has passed: `what` says what the ranks are doing, "writing runs/a".
/// Throws: what the work of this rank threw, before the others go on
void wait_for_all(const Communicator& world, const std::string& what, std::future<void>& work,
                  std::chrono::milliseconds note_after = std::chrono::minutes(1));

/// Runs `work` on each rank on a thread of its own and waits as wait_for_all does: writing large files to a slow disk.
/// `work` does not communicate, and makes no large tensors, as they would not count as this worker's memory.
void on_all(const Communicator& world, const std::string& what, const std::function<void()>& work,
            std::chrono::milliseconds note_after = std::chrono::minutes(1));

/// The same where rank 0 alone works. Throws: what `work` throws, on rank 0
void on_root(const Communicator& world, const std::string& what, const std::function<void()>& work,
             std::chrono::milliseconds note_after = std::chrono::minutes(1));

}  // namespace adjoin::train
