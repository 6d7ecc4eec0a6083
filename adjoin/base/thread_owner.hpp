#pragma once

#include <atomic>
#include <thread>

namespace adjoin {

/// The one thread that may use something: the first that uses it, unless any thread may.
class ThreadOwner {
 public:
  explicit ThreadOwner(bool is_any_thread) : is_any_thread_(is_any_thread) {}

  /// Whether the calling thread may use it.
  bool is_here() {
    if (is_any_thread_) return true;
    const std::thread::id here = std::this_thread::get_id();
    std::thread::id owner = owner_.load(std::memory_order_relaxed);
    if (owner == here) return true;
    return owner == std::thread::id() && owner_.compare_exchange_strong(owner, here);
  }

 private:
  const bool is_any_thread_;
  std::atomic<std::thread::id> owner_ = {};
};

}  // namespace adjoin
