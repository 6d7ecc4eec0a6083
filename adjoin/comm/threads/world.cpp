#include "adjoin/comm/threads/world.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/common_cause.hpp"

namespace adjoin::threads {

namespace {

int cores_of_machine() {
  static const int cores = usable_cores();
  return cores;
}

std::string lead_of(int rank) {
  return "rank " + std::to_string(rank) + ": ";
}

}  // namespace

World::World(int ranks, std::chrono::milliseconds deadline, bool is_checked)
    : host::World(ranks, host::Patience::for_ranks(ranks, cores_of_machine())),
      cores_(patience().spins > 0 ? static_cast<size_t>(ranks) : 0),
      placement_(cores_),
      deadline_(std::min<std::chrono::milliseconds>(deadline, diagnosis::kLongest)),
      is_checked_(is_checked),
      detector_(ranks, [this](const std::string& report) { end(report); }) {}

void World::end(const std::string& diagnosis) noexcept {
  end(diagnosis, /*culprit=*/-1, nullptr);
}

void World::abort(int rank, std::string_view reason) noexcept {
  end(reason, rank, nullptr);
}

void World::fail(int rank, std::exception_ptr cause) noexcept {
  end((is_common(cause) ? "" : lead_of(rank)) +
          (cause ? message_of(cause) : "an exception was thrown while asynchronous operations were still running"),
      rank, cause);
}

void World::leave_by(int rank, std::exception_ptr cause) noexcept {
  fail(rank, cause);
  const std::lock_guard lock(mutex_);
  // The exception may have ended the world while it unwound, or may only repeat the reason that the rank received.
  if (culprit_ == rank && !cause_ && !message_of(cause).ends_with(reason_)) cause_ = std::move(cause);
}

void World::end(std::string_view reason, int culprit, std::exception_ptr cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted()) return;
    reason_ = reason;
    culprit_ = culprit;
    cause_ = std::move(cause);
    aborted_->store(true);
  }
  for (const auto& group : groups()) group->wake_all();
}

std::string World::reason_of_end() const {
  const std::lock_guard lock(mutex_);
  return (culprit_ < 0 ? "" : "the world was aborted: ") + reason_;
}

void World::throw_cause() const {
  if (!aborted()) return;
  if (!cause_) throw CommunicationError(reason_);
  rethrow_led_by(is_common(cause_) ? "" : lead_of(culprit_), cause_);
}

void World::sleep(Agent& agent, host::Parking& parking, const Waiting& waiting) {
  const auto is_over = [&] { return waiting.is_over() || aborted(); };
  if (is_over()) return;
  detector_.block(agent, waiting);
  if (!parking.sleep(is_over, std::chrono::steady_clock::now() + deadline_)) {
    end(detector_.look("no progress within the deadline of " + diagnosis::text_of(deadline_)));
  }
  detector_.unblock(agent);
}

void World::watch(const std::shared_ptr<host::Group>& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& other) { return other.expired(); });
  groups_.push_back(group);
}

std::vector<std::shared_ptr<host::Group>> World::groups() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<host::Group>> living;
  for (const auto& weak : groups_)
    if (auto group = weak.lock()) living.push_back(std::move(group));
  return living;
}

}  // namespace adjoin::threads
