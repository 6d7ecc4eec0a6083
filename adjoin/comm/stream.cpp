#include "adjoin/comm/stream.hpp"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <numeric>
#include <utility>

namespace adjoin {

struct Stream::State {
  State(const Communicator& of, const Communicator& own) : owner(of), group(own) {}

  const Communicator owner, group;
  mutable std::mutex mutex;
  std::condition_variable work, done;       // for the stream's thread, and for those who wait
  std::deque<std::shared_ptr<Task>> queue;  // the first is running where `runs`
  bool runs = false, ends = false;
  bool is_lazy = false;       // nobody wakes the thread, which looks by itself now and then
  int runs_by_waiters = 0;    // in a row
  int looks_for_nothing = 0;  // in a row
};

namespace {

/// Where waiters come before the stream's thread so many times in a row, waking it for every task is lost work: two
/// changes of threads, on cores that the ranks share.
constexpr int kLazyAfter = 16;
constexpr auto kLookEvery = std::chrono::milliseconds(1);
constexpr int kMostLooksForNothing = 100;

/// Lets a thread that is woken not push a running one off its core: most often that one is about to wait for the
/// operation, and then runs it itself.
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
  return Communicator(group.backend()->for_thread(/*is_for_any_thread=*/true), owner.observer());
}

}  // namespace

Stream::Stream(const Communicator& owner, std::source_location where)
    : state_(std::make_shared<State>(owner, own_group(owner, where))) {
  state_->group.backend()->rest(true);
  thread_ = std::thread([state = state_] { serve(*state); });
}

Stream::~Stream() {
  bool is_idle;
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
    is_idle = state_->queue.empty();
  }
  state_->work.notify_one();
  if (is_idle && thread_.get_id() != std::this_thread::get_id())
    thread_.join();
  else
    thread_.detach();  // the job is about to end, or a task held the last handle
}

void Stream::release(const std::shared_ptr<Task>& task, bool is_left_by_exception) noexcept {
  try {
    if (is_done(*task) || (is_left_by_exception && !state_->owner.backend()->abandon())) return;
    wait(task);
  } catch (...) {  // nobody asked; a call that failed has ended the world
  }
}

const Communicator& Stream::group() const {
  return state_->group;
}

std::shared_ptr<Stream::Task> Stream::submit(Work work) {
  auto task = std::make_shared<Task>();
  task->work = std::move(work);
  State& state = *state_;
  bool is_lazy;
  {
    const std::lock_guard lock(state.mutex);
    if (state.queue.empty()) state.group.backend()->rest(false);
    state.queue.push_back(task);
    is_lazy = state.is_lazy;
  }
  if (!is_lazy) state.work.notify_one();
  return task;
}

bool Stream::is_done(const Task& task) const {
  const std::lock_guard lock(state_->mutex);
  return task.is_done;
}

void Stream::wait(const std::shared_ptr<Task>& task) {
  State& state = *state_;
  const std::shared_ptr<Backend>& waiter = state.owner.backend();
  std::unique_lock lock(state.mutex);
  if (!task->is_done) {
    task->waiters.push_back(waiter);
    waiter->rest(true);
    while (!task->is_done) {
      if (state.runs) {
        state.done.wait(lock);
        continue;
      }
      run_next(state, lock);
      const bool begins_to_be_lazy = ++state.runs_by_waiters == kLazyAfter;
      if (begins_to_be_lazy) state.is_lazy = true;
      if (begins_to_be_lazy || (!state.is_lazy && !state.queue.empty())) state.work.notify_one();
    }
  }
  if (task->error) std::rethrow_exception(task->error);
}

/// Runs the first of the queue; the lock is released meanwhile. Those who wait for it act again before the stream rests:
/// a rank of which all rest would look stuck.
void Stream::run_next(State& state, std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Task> task = state.queue.front();
  state.runs = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    task->work(state.group);
  } catch (...) {
    error = std::current_exception();
  }
  task->work = nullptr;
  lock.lock();
  task->error = error;
  task->is_done = true;
  state.runs = false;
  state.queue.pop_front();
  for (const auto& waiter : task->waiters) waiter->rest(false);
  task->waiters.clear();
  if (state.queue.empty()) state.group.backend()->rest(true);
  state.done.notify_all();
}

void Stream::serve(State& state) {
  step_back();
  const auto is_wanted = [&] { return !state.runs && (state.ends || !state.queue.empty()); };
  std::unique_lock lock(state.mutex);
  for (;;) {
    if (state.is_lazy)
      state.work.wait_for(lock, kLookEvery, [&] { return state.ends; });
    else
      state.work.wait(lock, [&] { return is_wanted() || state.is_lazy; });
    if (is_wanted()) {
      if (state.queue.empty()) return;
      run_next(state, lock);
      state.looks_for_nothing = 0;
    } else if (!state.is_lazy || ++state.looks_for_nothing < kMostLooksForNothing) {
      continue;
    }
    state.is_lazy = false;  // its turn has come, or nothing has been to do for long
    state.runs_by_waiters = state.looks_for_nothing = 0;
  }
}

}  // namespace adjoin
