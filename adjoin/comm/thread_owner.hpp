#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/call.hpp"

namespace adjoin {

/// The one thread that may use something: the first that does, unless any may.
class ThreadOwner {
 public:
  explicit ThreadOwner(bool is_any_thread) : is_any_thread_(is_any_thread) {}

  /// Whether the calling thread may.
  bool is_here() {
    if (is_any_thread_) return true;
    const std::thread::id here = std::this_thread::get_id();
    std::thread::id owner = owner_.load(std::memory_order_relaxed);
    if (owner == here) return true;
    return owner == std::thread::id() && owner_.compare_exchange_strong(owner, here);
  }

  /// Throws InvalidArgument where it may not make this call.
  void check(const Call& call) {
    if (is_here()) return;
    throw InvalidArgument(std::string(call.name) + " on rank " + std::to_string(call.rank) + " at " +
                          describe(call.where) +
                          ": this communicator belongs to another thread of the rank; give each thread one of its "
                          "own, made by for_thread()");
  }

 private:
  const bool is_any_thread_;
  std::atomic<std::thread::id> owner_ = {};
};

}  // namespace adjoin
