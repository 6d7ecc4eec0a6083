#include "adjoin/comm/async_communicator.hpp"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "adjoin/base/device_runtime.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/contract/own_call.hpp"
#include "adjoin/comm/turns.hpp"

namespace adjoin {

namespace {

using Work = std::function<void()>;

/// How long an operation may go on after an exception has destroyed its handle, where the backend cannot end it because its
/// peers may be about to complete it.
constexpr std::chrono::seconds kGrace(10);

struct Task {
  Work work;
  Work devices_before;  // lets the stream of devices wait for what the caller has enqueued there; or empty
  Work devices_after;   // lets the caller's wait for what the task has enqueued
  bool is_done = false, has_waiter = false;
  std::exception_ptr error;
};

void do_if_any(const Work& work) {
  if (work) work();
}

/// Keeps a thread that is woken from pushing a running one off its core: usually the running one is about to wait for the
/// operation.
void step_back() {
#ifdef SCHED_BATCH
  const sched_param none{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
#endif
}

Communicator own_group(const Communicator& owner, const Where& where) {
  const Communicator group = owner.subset(all_ranks(owner.size()), where);
  return group.carried_by(group.backend()->for_thread(/*is_for_any_thread=*/true));
}

}  // namespace

/// A queue of tasks and the thread that carries them out; it belongs to the thread that made it.
class AsyncCommunicator::Stream {
 public:
  Stream(std::shared_ptr<Backend> owner, std::shared_ptr<Backend> own)
      : state_(std::make_shared<State>(std::move(owner), std::move(own))) {
    state_->own->rest(true);
    try {
      thread_ = std::thread([state = state_] { serve(*state); });
    } catch (const std::system_error& error) {
      throw CommunicationError(std::string("a thread for asynchronous operations cannot be started: ") + error.what());
    }
  }
  /// All tasks have been released.
  ~Stream() {
    if (!process_.is_here()) {  // in the child of a fork, where the thread does not exist; it may hold the lock
      thread_.detach();
      return;
    }
    {
      const std::lock_guard lock(state_->mutex);
      state_->ends = true;
    }
    state_->work.notify_one();
    if (!is_own_thread())
      thread_.join();
    else
      thread_.detach();  // a task held the last handle
  }

  std::shared_ptr<Task> submit(Work work) {
    check_process();
    auto task = std::make_shared<Task>();
    task->work = std::move(work);
    task->devices_before = device_work_so_far();
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->queue.empty()) state_->own->rest(false);
      state_->queue.push_back(task);
    }
    state_->work.notify_one();
    return task;
  }

  bool is_done(const Task& task) const {
    check_process();
    const std::lock_guard lock(state_->mutex);
    return task.is_done;
  }

  /// The waiting thread counts as resting, so a wait by another thread would make the rank look as if it did something else.
  void wait(const std::shared_ptr<Task>& task) {
    check_process();
    std::unique_lock lock(state_->mutex);
    if (!task->is_done) {
      require(!is_own_thread(),
              "wait: a task of a stream waits for a later task of the same stream, which cannot begin before this one "
              "ends");
      require(may_wait(),
              "wait: expected the thread that made the AsyncCommunicator of the operation, got another thread; make an "
              "AsyncCommunicator for each thread, from a communicator of for_thread()");
      task->has_waiter = true;
      state_->owner->rest(true);
      state_->done.wait(lock, [&] { return task->is_done; });
    }
    do_if_any(task->devices_after);
    if (task->error) std::rethrow_exception(task->error);
  }

  /// Called when the last handle of a task is destroyed. The task uses the caller's buffers: this returns only when the task is
  /// done. Where an exception destroyed the handle, running tasks are ended.
  void release(const std::shared_ptr<Task>& task, bool is_left_by_exception) noexcept {
    if (!process_.is_here()) return;
    try {
      if (is_done(*task)) return do_if_any(task->devices_after);
    } catch (...) {  // of a device: the next call there throws it again
      return;
    }
    Backend& owner = *state_->owner;
    if (is_own_thread()) {
      owner.fail(error_of(
          "a task of a stream destroyed the handle of a later task of the same stream, for which it cannot wait"));
      return;
    }
    const auto is_over = [&] { return task->is_done; };
    if (is_left_by_exception && !owner.fail(nullptr)) {
      std::unique_lock lock(state_->mutex);
      if (!state_->done.wait_for(lock, kGrace, is_over))
        owner.fail(error_of("an exception was thrown while asynchronous operations were still running"));
    }
    try {
      if (may_wait()) return wait(task);
    } catch (...) {  // no caller can receive the error; it has ended the world
      return;
    }
    std::unique_lock lock(state_->mutex);
    state_->done.wait(lock, is_over);
  }

 private:
  /// Shared with the thread, which may live longer.
  struct State {
    State(std::shared_ptr<Backend> of, std::shared_ptr<Backend> for_tasks)
        : owner(std::move(of)), own(std::move(for_tasks)) {}

    const std::shared_ptr<Backend> owner, own;  // of the group that the stream was made from, and of the tasks
    const std::thread::id waiting_thread = std::this_thread::get_id();
    std::mutex mutex;
    std::condition_variable work, done;       // for the stream's thread, and for waiting threads
    std::deque<std::shared_ptr<Task>> queue;  // the first is running
    std::exception_ptr error;                 // the first one
    bool ends = false;
  };

  void check_process() const { process_.require_here("asynchronous operation"); }
  /// Whether this thread made the stream, or takes turns with the one that did.
  bool may_wait() const { return std::this_thread::get_id() == state_->waiting_thread || Turns::is_second(); }
  bool is_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  static std::exception_ptr error_of(const char* what) { return std::make_exception_ptr(Error(what)); }

  /// Runs the tasks. A thread that waits for a task counts as active again before the stream rests: a rank whose threads all
  /// rest would look stuck.
  static void serve(State& state) {
    step_back();
    try {
      use_own_streams();
    } catch (...) {
      const std::lock_guard lock(state.mutex);
      state.error = std::current_exception();
    }
    std::unique_lock lock(state.mutex);
    for (;;) {
      state.work.wait(lock, [&] { return state.ends || !state.queue.empty(); });
      if (state.queue.empty()) return;
      const std::shared_ptr<Task> task = state.queue.front();
      std::exception_ptr error = state.error;
      lock.unlock();
      try {
        do_if_any(task->devices_before);
        if (!error) task->work();
        task->devices_after = device_work_so_far();
      } catch (...) {
        error = std::current_exception();
        state.own->fail(error);
      }
      task->work = nullptr;
      lock.lock();
      state.error = task->error = error;
      task->is_done = true;
      state.queue.pop_front();
      if (task->has_waiter) state.owner->rest(false);
      if (state.queue.empty()) state.own->rest(true);
      state.done.notify_all();
    }
  }

  const ProcessOwner process_;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

struct Handle::Owner {
  ~Owner() { stream->release(task, std::uncaught_exceptions() > exceptions); }

  std::shared_ptr<AsyncCommunicator::Stream> stream;
  std::shared_ptr<Task> task;
  std::shared_ptr<Observer> observer;
  int exceptions = std::uncaught_exceptions();  // that were being thrown when the operation began
};

void Handle::wait() const {
  const ObservedWait seen(done() ? nullptr : owner_->observer.get(), nullptr);
  owner_->stream->wait(owner_->task);
}
bool Handle::done() const {
  return owner_->stream->is_done(*owner_->task);
}

AsyncCommunicator::AsyncCommunicator(const Communicator& group, Where where)
    : group_(own_group(group, where)), stream_(std::make_shared<Stream>(group.backend(), group_.backend())) {}

Handle AsyncCommunicator::carry_out(Call&& call) const {
  group_.fill_and_check(call);
  return run(
      [own = std::make_shared<const OwnCall>(call)](const Communicator& group) { group.carry_out(Call(own->call)); });
}

Handle AsyncCommunicator::run(std::function<void(const Communicator&)> work) const {
  return Handle(std::make_shared<Handle::Owner>(
      stream_, stream_->submit([work = std::move(work), group = group_] { work(group); }), group_.observer()));
}

}  // namespace adjoin
