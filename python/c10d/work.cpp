#include "python/c10d/work.hpp"

#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"
#include "python/c10d/elements.hpp"

namespace adjoin::c10d_backend {

using host::AgentNotice;
using host::Shows;

namespace {

thread_local const Queue* of_this_thread = nullptr;  // whose task it carries out

std::exception_ptr translated(const std::exception_ptr& error) {
  try {
    try {
      std::rethrow_exception(error);
    } catch (const host::NoSharedMemory&) {
      throw;
    } catch (const CommunicationError& e) {
      C10_THROW_ERROR(DistBackendError, std::string("adjoin: ") + e.what());
    } catch (const InvalidArgument& e) {
      C10_THROW_ERROR(ValueError, std::string("adjoin: ") + e.what());
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

void run_translated(const std::function<void()>& call) {
  try {
    call();
  } catch (...) {
    throw_translated(std::current_exception());
  }
}

void throw_translated(const std::exception_ptr& error) {
  std::rethrow_exception(translated(error));
}

void check_process(const ProcessOwner& owner) {
  TORCH_CHECK_VALUE(owner.is_here(), "adjoin: this group belongs to the process that made this one by fork()");
}

void CollectiveWork::end(std::exception_ptr error) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  if (error) error = translated(error);
  {
    const std::lock_guard lock(mutex_);
    completed_ = true;
    exception_ = error;
    future = future_;
    if (recordFunctionEndCallback_) recordFunctionEndCallback_();
    recordFunctionEndCallback_ = nullptr;
  }
  cv_.notify_all();
  if (future) error ? future->setError(error) : future->markCompleted(c10::IValue(out_));
}

bool CollectiveWork::wait(std::chrono::milliseconds timeout) {
  if (!isCompleted()) check_process(process_);
  if (const auto queue = timeout == kNoTimeout ? queue_.lock() : nullptr) queue->run_up_to(*this);
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return completed_; };
  if (!completed_) {
    const Shows rests(AgentNotice::State::rests);
    if (timeout == kNoTimeout)
      cv_.wait(lock, is_over);
    else if (!cv_.wait_for(lock, timeout, is_over))
      C10_THROW_ERROR(DistBackendError, std::string(title_) + " #" + std::to_string(sequence_) +
                                            ", which goes on: Timed out after " + diagnosis::text_of(timeout));
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> CollectiveWork::getFuture() {
  const std::lock_guard lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  if (completed_) exception_ ? future_->setError(exception_) : future_->markCompleted(c10::IValue(out_));
  return future_;
}

MessageWork::MessageWork(std::shared_ptr<Member> member, c10d::OpType op, const char* title, const at::Tensor& tensor,
                         const Call& call, std::chrono::milliseconds timeout)
    : Work(member->rank(), op, title, std::vector<at::Tensor>{tensor}),
      member_(std::move(member)),
      tensor_(tensor),
      shared_(member_->world().reaches(tensor.data_ptr()) && tensor.is_contiguous() ? tensor
              : op == c10d::OpType::SEND                                            ? tensor.contiguous()
                                         : at::empty(tensor.sizes(), tensor.options())),
      timeout_(timeout),
      call_(call) {
  share(shared_);
  call_.messages[0].buffer = buffer_of(shared_);
  call_.call.messages = call_.messages;
  run_translated([&] { posted_ = member_->begin_messages(call_.call); });
}

void MessageWork::end(std::exception_ptr error) {
  if (!error && opType_ != c10d::OpType::SEND && !tensor_.is_same(shared_)) tensor_.copy_(shared_);
  finish(std::move(error));
}

bool MessageWork::isCompleted() {
  const std::lock_guard one(waiting_);
  if (Work::isCompleted()) return true;
  check_process(process_);
  if (!posted_->done()) return false;
  wait(kNoTimeout);
  return true;
}

bool MessageWork::wait(std::chrono::milliseconds timeout) {
  if (!Work::isCompleted()) {
    check_process(process_);
    member_->set_timeout(timeout == kNoTimeout ? timeout_ : timeout);
    std::exception_ptr error;
    try {
      host::notice_of_thread();
      posted_->wait();
    } catch (...) {
      error = translated(std::current_exception());
    }
    end(error);
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

bool Queue::begin_inline() {
  const std::lock_guard lock(mutex_);
  if (runs_inline_ || runs_task_ || !tasks_.empty()) return false;
  return runs_inline_ = true;
}

void Queue::end_inline() {
  const std::lock_guard lock(mutex_);
  runs_inline_ = false;
  if (!tasks_.empty()) changes_.notify_one();
}

void Queue::add(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  // The thread is about to act, however long the system lets it wait.
  if (notice_ && notice_->state.load() == AgentNotice::State::rests) notice_->change(AgentNotice::State::computes);
  changes_.notify_one();
}

void Queue::run_next(std::unique_lock<std::mutex>& lock) {
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  lock.unlock();
  const Queue* const before = std::exchange(of_this_thread, this);
  std::exception_ptr error;
  try {
    task.run();
  } catch (...) {
    error = std::current_exception();
  }
  task.run = nullptr;
  task.work->end(error);
  of_this_thread = before;
  lock.lock();
}

void Queue::run_up_to(const CollectiveWork& work) {
  const auto is_it = [&](const Task& task) { return task.work.get() == &work; };
  std::unique_lock lock(mutex_);
  if (of_this_thread == this)
    while (std::ranges::any_of(tasks_, is_it)) run_next(lock);
  if (runs_inline_ || runs_task_ || tasks_.empty() || !is_it(tasks_.front())) return;
  runs_inline_ = true;
  run_next(lock);
  lock.unlock();
  end_inline();
}

void Queue::serve() {
  std::unique_lock lock(mutex_);
  notice_ = &host::notice_of_thread();
  const auto has_next = [&] { return !runs_inline_ && !tasks_.empty(); };
  for (;;) {
    if (!has_next()) {
      const Shows rests(AgentNotice::State::rests);
      changes_.wait(lock, [&] { return has_next() || (stops_ && tasks_.empty()); });
    }
    if (tasks_.empty()) break;
    runs_task_ = true;
    run_next(lock);
    runs_task_ = false;
  }
  notice_ = nullptr;
}

void Queue::stop() {
  std::optional<pybind11::gil_scoped_release> release;  // others that the queue's callbacks wait for may need it
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) release.emplace();
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changes_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace adjoin::c10d_backend
