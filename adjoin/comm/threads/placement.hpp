#pragma once

#include <atomic>
#include <vector>

namespace adjoin::threads {

/// Keeps ranks that wait for each other off one core, where there is one for each.
///
/// The system puts threads that wake each other onto one core, and leaves them there for long: each sees the other only
/// when it yields, and small operations then take ten times as long. A rank that waits for longer than a meeting takes
/// says on which core it is, and moves where another one was last seen on that.
class Placement {
 public:
  explicit Placement(int ranks);

  /// Called by a rank's own thread. It may run on all its cores again at once.
  void step_aside(int rank);

 private:
  bool is_taken(int core) const;

  bool is_wanted_;
  std::vector<std::atomic<int>> cores_;  // where each rank was when it last came here; -1 before
};

}  // namespace adjoin::threads
