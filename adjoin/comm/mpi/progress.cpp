#include "adjoin/comm/mpi/progress.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace adjoin::mpi {

namespace {

/// Between two looks of the thread, and of a rank that has waited for longer than kYields. A look takes some microseconds.
constexpr std::chrono::microseconds kPause(250), kShortPause(50), kYields(50);

}  // namespace

void Progress::stop() {
  if (!thread_.joinable()) return;
  {
    const Lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Progress::begin(Begun& begun) {
  const Lock lock(mutex_);
  pending_.push_back(&begun);
  look(lock);
  if (pending_.empty()) return;
  if (has_thread_ && !ends_ && !thread_.joinable()) try {
      thread_ = std::thread([this] { serve(); });
    } catch (const std::system_error&) {  // then the ranks look alone
      has_thread_ = false;
    }
  changed_.notify_all();
}

void Progress::look() {
  look(Lock(mutex_));
}

void Progress::look(const Lock&) {
  for (auto at = pending_.begin(); at != pending_.end();) {
    const auto is_before = [&](const Begun* other) { return other->turn && other->turn == (*at)->turn; };
    const bool has_turn = std::none_of(pending_.begin(), at, is_before);
    if (!has_turn || !(*at)->go_on()) {
      ++at;
      continue;
    }
    (*at)->has_ended.store(true);
    at = pending_.erase(at);
  }
  is_pending_.store(!pending_.empty());
}

void Progress::await(const Begun& begun) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point patient_until = Clock::now() + kYields;
  Lock lock(mutex_);
  ++waiting_;
  for (look(lock); !begun.has_ended.load(); look(lock)) {
    lock.unlock();
    Clock::now() < patient_until ? std::this_thread::yield() : std::this_thread::sleep_for(kShortPause);
    lock.lock();
  }
  --waiting_;
  if (!pending_.empty()) changed_.notify_all();
}

void Progress::leave(const Begun& begun) noexcept {
  if (!process_.is_here()) return;
  const Lock lock(mutex_);
  std::erase(pending_, &begun);
  is_pending_.store(!pending_.empty());
}

void Progress::serve() {
  for (Lock lock(mutex_); !ends_; changed_.wait_for(lock, kPause, [&] { return ends_; })) {
    changed_.wait(lock, [&] { return ends_ || (!pending_.empty() && waiting_ == 0); });
    if (!ends_) look(lock);
  }
}

}  // namespace adjoin::mpi
