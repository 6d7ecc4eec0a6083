#include "adjoin/base/process_owner.hpp"

#include <pthread.h>

#include <atomic>

#include "adjoin/base/error.hpp"

namespace adjoin {

namespace {

std::atomic<int> depth = 0;
[[maybe_unused]] const int forks_are_counted = ::pthread_atfork(nullptr, nullptr, [] { depth.fetch_add(1); });

}  // namespace

int fork_depth() noexcept {
  return depth.load(std::memory_order_relaxed);
}

void ProcessOwner::require_here(const std::string& lead) const {
  require(is_here(), [&] {
    return lead + ": expected the process of the rank, got a child that it made by fork(), which cannot communicate";
  });
}

}  // namespace adjoin
