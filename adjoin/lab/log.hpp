#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/comm/contract/backend.hpp"
#include "adjoin/lab/recording.hpp"

namespace adjoin::lab {

/// A recorded group of the world, with a name that is the same on all its members.
struct RecordedGroup {
  std::string name;          // "" for the world
  std::vector<int> members;  // their ranks in the world
};

/// What the ranks of a world did, as reported by each of them; their threads share the log.
class Log {
 public:
  explicit Log(int ranks) : ranks_(ranks), exchanges_(static_cast<size_t>(ranks)) {}

  int ranks() const { return ranks_; }

  /// Records the begin of a call by a rank of the world; the returned id is passed to end(). A call that is never ended
  /// (because it threw) is not in the recording.
  using Id = size_t;
  Id begin_exchange(const RecordedGroup& group, int rank, std::span<const Message> messages);
  /// The same for a call that the backend carries out without messages.
  Id begin_collective(const RecordedGroup& group, int rank);
  void end(Id id);

  /// The name of the group that `rank` makes from `members` of `group`: the same on all members, and different each
  /// time.
  std::string name_subset(const RecordedGroup& group, int rank, std::span<const int> members);

  /// The messages whose two calls have ended, in the order that Recording guarantees.
  Recording recording() const;

 private:
  /// One end of a message.
  struct Half {
    bool is_send = false;
    int peer = 0, tag = 0;
    int64_t bytes = 0;
    ElementType type = ElementType::float32;
  };
  struct Call {
    int rank = 0;
    int64_t place = 0;  // number among the rank's exchanges, from 1
    std::string group;
    uint64_t nth = 0;  // number among the group's collectives, from 1; 0: an exchange
    std::vector<Half> halves = {};
    double begin = 0, end = 0;
    bool has_ended = false;
  };
  struct Event {
    Id call = 0;
    bool is_end = false;
  };
  struct Pair {  // the two calls of a message
    Id sender = 0, receiver = 0;
    Half sent;
  };

  Id begin(Call call);
  double now() const;
  std::vector<Pair> pairs() const;
  std::vector<int64_t> steps_of(std::span<const Pair> pairs) const;

  const int ranks_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::vector<Call> calls_;
  std::vector<Event> events_;  // in the order in which they happened
  std::vector<int64_t> exchanges_;
  std::map<std::pair<std::string, int>, uint64_t> collectives_, subsets_;  // of a rank in a group
};

}  // namespace adjoin::lab
