#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/contract/call.hpp"

namespace adjoin {

class Communicator;

/// Two parts of a rank's work on two threads, of which one runs at a time.
///
/// Where a part calls the group, or waits for a call that it has begun on it, that call is begun, and the other part runs until it
/// comes to such a place too; only then the first waits. So calls between hosts go on beside the other part. Each part must make the
/// same calls of the group on all of its ranks: then the parts change in the same order on all of them, whatever the calls take, and
/// all calls of all groups happen in one order. Calls of other groups do not change the part.
class Turns : NotCopied {
 public:
  explicit Turns(const Communicator& group);

  /// Runs `first` on this thread and `second` on another, which has this thread's state (carried_state.hpp) and may use its
  /// communicators. `first` begins. Where one fails, the other ends at its next call of the group.
  /// Throws: what the part threw that failed first
  void run(const std::function<void()>& first, const std::function<void()>& second);

  /// Those of which this thread runs a part; nullptr where there are none.
  static Turns* current();
  /// Whether this thread runs the second part, for the thread that called run().
  static bool is_second();

  bool change_at(const GroupIdentity& group) const { return group.world_ranks == group_; }
  /// Lets the other part run, and returns when it is this one's turn again.
  void change();

 private:
  void run_part(size_t part, const std::function<void()>& work);

  const std::vector<int> group_;  // ranks of the world
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t turn_ = 0;
  std::array<bool, 2> has_ended_{};
  std::exception_ptr error_;
};

}  // namespace adjoin
