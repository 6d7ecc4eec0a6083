#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/base/process_owner.hpp"

namespace adjoin::mpi {

/// Lets what this process has begun between hosts go on. MPI does so only while it is called: by a thread of this object, which
/// looks now and then while something is pending, and by the ranks that wait. All of it happens under one lock.
class Progress : NotCopied {
 public:
  /// A call that has begun.
  struct Begun : NotCopied {
    /// Those of one turn go on one after another; nullptr: whatever else is pending.
    explicit Begun(const void* in_turn) : turn(in_turn) {}
    virtual ~Begun() = default;
    /// Goes on as far as is possible without waiting; whether it has ended, well or not.
    virtual bool go_on() = 0;

    const void* const turn;
    std::atomic<bool> has_ended = false;
  };

  /// `has_thread`: MPI may be called by several threads at once.
  explicit Progress(bool has_thread) : has_thread_(has_thread) {}
  ~Progress() { stop(); }
  /// Ends the thread, before MPI ends.
  void stop();

  void begin(Begun& begun);
  void look();
  /// Returns when it has ended. Looks meanwhile, and soon only now and then.
  void await(const Begun& begun);
  /// Lets go of it, whether it has ended or not.
  void leave(const Begun& begun) noexcept;
  /// Whether something is pending that only ranks look at.
  bool wants_looks() const { return !has_thread_ && is_pending_.load(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  void look(const Lock&);
  void serve();

  std::atomic<bool> has_thread_;
  const ProcessOwner process_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Begun*> pending_;  // in the order in which they began
  std::atomic<bool> is_pending_ = false;
  int waiting_ = 0;  // ranks' threads, which look themselves
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace adjoin::mpi
