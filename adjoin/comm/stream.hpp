#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <source_location>
#include <thread>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// Carries out work on a group of its own, in the order of submission, on a thread of its own.
///
/// The first error ends the world, and every later task with that error: ranks whose tasks differ would else pair calls
/// that do not belong together.
class Stream {
 public:
  using Work = std::function<void(const Communicator&)>;
  struct Task {
    Work work;
    bool is_done = false, has_waiter = false;
    std::exception_ptr error;
  };

  /// Called by all ranks of `owner`, as the stream's group is a new one, on the thread that is to wait for its tasks.
  /// Cost: that of subset
  Stream(const Communicator& owner, std::source_location where);
  /// All tasks have been released.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Communicator& group() const;
  std::shared_ptr<Task> submit(Work work);
  /// Throws: what the work has thrown; InvalidArgument on another thread than the one that made the stream, while the task
  ///         is not done: the rank would look as if it did something else
  void wait(const std::shared_ptr<Task>& task);
  bool is_done(const Task& task) const;
  /// The last that is heard of a task: waits for it; where `is_left_by_exception`, ends what is under way instead.
  void release(const std::shared_ptr<Task>& task, bool is_left_by_exception) noexcept;

 private:
  struct State;
  static void serve(State& state);
  void end_within_grace(const Task& task) noexcept;

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace adjoin
