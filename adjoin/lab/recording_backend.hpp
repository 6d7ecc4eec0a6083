#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "adjoin/base/ticks.hpp"
#include "adjoin/comm/contract/forwarding_backend.hpp"
#include "adjoin/lab/meetings.hpp"
#include "adjoin/lab/recording.hpp"

namespace adjoin::lab {

/// What the ranks of a world did, as reported by each of them; their threads share the log.
class Log {
 public:
  explicit Log(int ranks) : calls_(static_cast<size_t>(ranks)), exchanges_(calls_.size()) {}

  int ranks() const { return static_cast<int>(calls_.size()); }

  /// Records the begin of a call by a rank of the world; what it returns is passed to end(). A call that is never ended
  /// (because it threw) is not in the recording.
  CallOfRank begin_exchange(const GroupIdentity& group, int rank, std::span<const Message> messages);
  /// The same for a call that the backend carries out without messages.
  CallOfRank begin_collective(const GroupIdentity& group, int rank);
  void end(CallOfRank call);

  /// The group that `rank` makes from some ranks of `group`: its id is the same on all members, and different each time.
  GroupIdentity subset(const GroupIdentity& group, int rank, std::span<const int> ranks);

  /// The messages whose two calls have ended, in the order that Recording guarantees.
  Recording recording() const;

 private:
  struct Event {
    CallOfRank call;
    bool is_end = false;
  };
  CallOfRank begin(int rank, TimedCall call);
  const TimedCall& at(CallOfRank call) const { return calls_[call.rank][call.call]; }
  std::vector<int64_t> steps_of(std::span<const MatchedMessage> messages) const;

  const int64_t start_ = steady_nanoseconds();
  mutable std::mutex mutex_;
  std::vector<std::vector<TimedCall>>
      calls_;                        // by rank; the place of an exchange is its number among the rank's exchanges
  std::vector<Event> events_;        // in the order in which they happened
  std::vector<uint64_t> exchanges_;  // by rank
  std::map<std::pair<uint64_t, int>, uint64_t> collectives_, subsets_;  // of a rank in a group
};

/// A backend that forwards to another one and writes its exchanges to a log. Collectives are those of the other
/// backend, which may send them in any way: the log records only that they were called.
class RecordingBackend final : public ForwardingBackend {
 public:
  RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Log> log, GroupIdentity group);

  void exchange(std::span<const Message> messages, const Call& call) override;
  /// Sends; all else is recorded when it is carried out.
  std::unique_ptr<Pending> begin(const Call& call) override;
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override;
  void run_collective(const Call& call) override;
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override;

 private:
  int world_rank() const { return group_.world_ranks[static_cast<size_t>(rank())]; }

  const std::shared_ptr<Log> log_;
  const GroupIdentity group_;  // of the recorded world
};

}  // namespace adjoin::lab
