#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "adjoin/base/not_copied.hpp"

namespace adjoin::testing {

/// A stream of a device that this machine does not have: a thread that does what is enqueued, in order, after random delays. So work
/// that forgets to wait for another stream gives wrong numbers, and ThreadSanitizer sees a race.
class DelayedStream : NotCopied {
 public:
  /// Before one of so many works, on the average, streams are up to 200 us late.
  static constexpr unsigned kSeldom = 64;
  static inline std::atomic<unsigned> one_in = kSeldom;

  DelayedStream() = default;
  ~DelayedStream() {
    if (!thread_.joinable()) return;
    push(nullptr);
    thread_.join();
  }

  /// Throws: what earlier work threw
  void enqueue(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
      if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
    }
    push(std::move(work));
  }
  bool is_idle() const {
    const std::lock_guard lock(mutex_);
    return queue_.empty();
  }
  /// Returns when all that was enqueued has ended.
  /// Throws: what it threw first
  void synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty(); });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  void serve() {
    static std::atomic<unsigned> streams = 0;
    std::minstd_rand random(++streams);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const std::function<void()> work = queue_.front();
      lock.unlock();
      if (!work) return;
      if (random() % one_in == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      std::exception_ptr error;
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (!error_) error_ = error;
      queue_.pop_front();
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;  // the first is running; an empty one ends the thread
  std::exception_ptr error_;
  std::thread thread_;
};

/// While it lives, streams are late before every fourth work.
struct OftenLate : NotCopied {
  OftenLate() { DelayedStream::one_in = 4; }
  ~OftenLate() { DelayedStream::one_in = DelayedStream::kSeldom; }
};

/// An event of such streams.
class DelayedEvent {
 public:
  void record(DelayedStream& stream) {
    latest_ = std::make_shared<Mark>();
    stream.enqueue([mark = latest_] {
      const std::lock_guard lock(mark->mutex);
      mark->is_reached = true;
      mark->changed.notify_all();
    });
  }
  void block(DelayedStream& stream) const {
    if (latest_) stream.enqueue([mark = latest_] { mark->wait(); });
  }
  bool is_reached() const {
    if (!latest_) return true;
    const std::lock_guard lock(latest_->mutex);
    return latest_->is_reached;
  }
  void synchronize() const {
    if (latest_) latest_->wait();
  }

 private:
  struct Mark {
    void wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_reached; });
    }
    std::mutex mutex;
    std::condition_variable changed;
    bool is_reached = false;
  };
  std::shared_ptr<Mark> latest_;
};

/// Enqueues work on the first of these streams, in the order of them all.
inline void enqueue_in_order(const std::vector<DelayedStream*>& streams, std::function<void()> work) {
  DelayedEvent before, after;
  for (size_t i = 1; i < streams.size(); ++i) {
    if (streams[i] == streams[0]) continue;
    before.record(*streams[i]);
    before.block(*streams[0]);
  }
  streams[0]->enqueue(std::move(work));
  after.record(*streams[0]);
  for (size_t i = 1; i < streams.size(); ++i)
    if (streams[i] != streams[0]) after.block(*streams[i]);
}

}  // namespace adjoin::testing
