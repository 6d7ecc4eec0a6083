#include "adjoin/comm/stream.hpp"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin {

struct Stream::State {
  State(const Communicator& of, const Communicator& own) : owner(of), group(own) {}

  const Communicator owner, group;
  const std::thread::id waiting_thread = std::this_thread::get_id();
  mutable std::mutex mutex;
  std::condition_variable work, done;       // for the stream's thread, and for who waits
  std::deque<std::shared_ptr<Task>> queue;  // the first is running
  std::exception_ptr error;                 // the first one
  bool ends = false;
};

namespace {

/// How long an operation may go on where an exception has ended its handle and the backend cannot end it: its peers may
/// be about to complete it.
constexpr std::chrono::seconds kGrace(10);

/// Lets a thread that is woken not push a running one off its core: most often that one is about to wait for the
/// operation.
void step_back() {
#ifdef SCHED_BATCH
  const sched_param none{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
#endif
}

Communicator own_group(const Communicator& owner, std::source_location where) {
  std::vector<int> all(static_cast<size_t>(owner.size()));
  std::iota(all.begin(), all.end(), 0);
  const Communicator group = owner.subset(all, where);
  return group.carried_by(group.backend()->for_thread(/*is_for_any_thread=*/true));
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace

Stream::Stream(const Communicator& owner, std::source_location where)
    : state_(std::make_shared<State>(owner, own_group(owner, where))) {
  state_->group.backend()->rest(true);
  thread_ = std::thread([state = state_] { serve(*state); });
}

Stream::~Stream() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
  }
  state_->work.notify_one();
  if (thread_.get_id() != std::this_thread::get_id())
    thread_.join();
  else
    thread_.detach();  // a task held the last handle
}

const Communicator& Stream::group() const {
  return state_->group;
}

std::shared_ptr<Stream::Task> Stream::submit(Work work) {
  auto task = std::make_shared<Task>();
  task->work = std::move(work);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->queue.empty()) state_->group.backend()->rest(false);
    state_->queue.push_back(task);
  }
  state_->work.notify_one();
  return task;
}

bool Stream::is_done(const Task& task) const {
  const std::lock_guard lock(state_->mutex);
  return task.is_done;
}

void Stream::wait(const std::shared_ptr<Task>& task) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!task->is_done) {
    require(std::this_thread::get_id() != thread_.get_id(),
            "wait: a task of a stream waits for a later one of the same stream, which would never begin");
    require(std::this_thread::get_id() == state.waiting_thread,
            "wait: an asynchronous operation is waited for by another thread than the one that made its "
            "AsyncCommunicator; make one for each thread, of a communicator from for_thread()");
    task->has_waiter = true;
    state.owner.backend()->rest(true);
    state.done.wait(lock, [&] { return task->is_done; });
  }
  if (task->error) std::rethrow_exception(task->error);
}

void Stream::release(const std::shared_ptr<Task>& task, bool is_left_by_exception) noexcept {
  if (is_done(*task)) return;
  if (std::this_thread::get_id() == thread_.get_id())
    return state_->owner.backend()->fail("a task of a stream let go of a later one, which it cannot wait for");
  if (is_left_by_exception && !state_->owner.backend()->abandon()) end_within_grace(*task);
  try {
    if (std::this_thread::get_id() == state_->waiting_thread) return wait(task);
  } catch (...) {  // nobody asked; it has ended the world
    return;
  }
  std::unique_lock lock(state_->mutex);
  state_->done.wait(lock, [&] { return task->is_done; });
}

/// The operation uses the caller's buffers: nobody returns to the caller while it goes on.
void Stream::end_within_grace(const Task& task) noexcept {
  std::unique_lock lock(state_->mutex);
  if (!state_->done.wait_for(lock, kGrace, [&] { return task.is_done; }))
    state_->owner.backend()->fail("left by an exception amid asynchronous operations");
}

/// Runs the tasks. Who waits for one acts again before the stream rests: a rank of which all rest would look stuck.
void Stream::serve(State& state) {
  step_back();
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.work.wait(lock, [&] { return state.ends || !state.queue.empty(); });
    if (state.queue.empty()) return;
    const std::shared_ptr<Task> task = state.queue.front();
    std::exception_ptr error = state.error;
    lock.unlock();
    try {
      if (!error) task->work(state.group);
    } catch (...) {
      error = std::current_exception();
      state.group.backend()->fail(message_of(error));
    }
    task->work = nullptr;
    lock.lock();
    state.error = task->error = error;
    task->is_done = true;
    state.queue.pop_front();
    if (task->has_waiter) state.owner.backend()->rest(false);
    if (state.queue.empty()) state.group.backend()->rest(true);
    state.done.notify_all();
  }
}

}  // namespace adjoin
