#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// Carries out work on a group of its own, in the order of submission, on a thread of its own or on that of a waiter.
///
/// What the thread has not begun a waiter runs itself, so that submitting and waiting at once costs no change of threads.
class Stream {
 public:
  using Work = std::function<void(const Communicator&)>;
  struct Task {
    Work work;
    bool is_done = false;
    std::exception_ptr error;
    std::vector<std::shared_ptr<Backend>> waiters;
  };

  /// Called by all ranks of `owner`, as the stream's group is a new one. Cost: that of subset
  Stream(const Communicator& owner, std::source_location where);
  /// All tasks have been released.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Communicator& group() const;
  std::shared_ptr<Task> submit(Work work);
  /// Throws: what the work has thrown
  void wait(const std::shared_ptr<Task>& task);
  bool is_done(const Task& task) const;
  /// The last that is heard of a task: waits for it; where `is_left_by_exception`, ends what is under way instead.
  void release(const std::shared_ptr<Task>& task, bool is_left_by_exception) noexcept;

 private:
  struct State;
  static void run_next(State& state, std::unique_lock<std::mutex>& lock);
  static void serve(State& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace adjoin
