#include "adjoin/lab/recording_backend.hpp"

#include <algorithm>
#include <tuple>

#include "adjoin/base/hash.hpp"
#include "adjoin/base/ticks.hpp"

namespace adjoin::lab {

CallOfRank Log::begin(int rank, TimedCall call) {
  std::vector<TimedCall>& calls = calls_[static_cast<size_t>(rank)];
  const CallOfRank id{static_cast<size_t>(rank), calls.size()};
  call.begin = steady_nanoseconds();
  calls.push_back(std::move(call));
  events_.push_back({id, /*is_end=*/false});
  return id;
}

CallOfRank Log::begin_exchange(const GroupIdentity& group, int rank, std::span<const Message> messages) {
  TimedCall call{{.kind = CallRecord::Kind::messages, .group = group.id}, timed(messages, group)};
  const std::lock_guard lock(mutex_);
  call.place = ++exchanges_[static_cast<size_t>(rank)];
  return begin(rank, std::move(call));
}

CallOfRank Log::begin_collective(const GroupIdentity& group, int rank) {
  const std::lock_guard lock(mutex_);
  const uint64_t meeting = ++collectives_[{group.id, rank}];
  return begin(rank, {{.kind = CallRecord::Kind::collective, .group = group.id, .meeting = meeting}});
}

void Log::end(CallOfRank call) {
  const std::lock_guard lock(mutex_);
  calls_[call.rank][call.call].end = steady_nanoseconds();
  events_.push_back({call, /*is_end=*/true});
}

GroupIdentity Log::subset(const GroupIdentity& group, int rank, std::span<const int> ranks) {
  GroupIdentity made;
  for (const int member : ranks) made.world_ranks.push_back(group.world_ranks[static_cast<size_t>(member)]);
  const uint64_t members = hash_of(std::span<const int>(made.world_ranks), group.id);
  const std::lock_guard lock(mutex_);
  made.id = mix(members + ++subsets_[{members, rank}]);
  return made;
}

// The step that a rank has reached when a call begins is the highest step of its calls that had ended; a message is one
// step later than the higher of its two sides.
std::vector<int64_t> Log::steps_of(std::span<const MatchedMessage> messages) const {
  std::map<CallOfRank, std::vector<size_t>> messages_of;
  for (size_t i = 0; i < messages.size(); ++i)
    for (const CallOfRank& call : {messages[i].send, messages[i].receive}) messages_of[call].push_back(i);
  std::vector<int64_t> steps(messages.size()), reached(calls_.size());
  std::map<CallOfRank, int64_t> before;
  std::map<std::pair<uint64_t, uint64_t>, int64_t> met;  // the highest step that a collective's ranks had reached
  for (const Event& event : events_) {
    const TimedCall& call = at(event.call);
    int64_t& mine = reached[event.call.rank];
    if (!event.is_end) before[event.call] = mine;
    if (call.meeting > 0) {
      int64_t& all = met[{call.group, call.meeting}];
      (event.is_end ? mine : all) = std::max(mine, all);
    } else if (event.is_end) {
      for (const size_t i : messages_of[event.call]) {
        steps[i] = 1 + std::max(before[messages[i].send], before[messages[i].receive]);
        mine = std::max(mine, steps[i]);
      }
    }
  }
  return steps;
}

Recording Log::recording() const {
  const std::lock_guard lock(mutex_);
  std::vector<RankCalls> ranks;
  for (const std::vector<TimedCall>& calls : calls_) ranks.push_back({static_cast<int>(ranks.size()), calls});
  std::vector<MatchedMessage> messages = matched_messages(ranks);
  std::erase_if(messages, [&](const MatchedMessage& m) { return at(m.send).end == 0 || at(m.receive).end == 0; });
  const std::vector<int64_t> steps = steps_of(messages);
  const auto seconds = [&](int64_t time) { return 1e-9 * static_cast<double>(time - start_); };
  Recording recording{.ranks = this->ranks(), .messages = {}};
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto& [send, receive, sent] = messages[i];
    recording.messages.push_back({.from = static_cast<int>(send.rank),
                                  .to = static_cast<int>(receive.rank),
                                  .tag = sent.tag,
                                  .bytes = sent.bytes,
                                  .type = sent.type,
                                  .step = steps[i],
                                  .place_sent = static_cast<int64_t>(at(send).place),
                                  .place_received = static_cast<int64_t>(at(receive).place),
                                  .begin = seconds(at(send).begin),
                                  .end = seconds(at(receive).end)});
  }
  std::stable_sort(recording.messages.begin(), recording.messages.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.from, a.to, a.place_sent) < std::tie(b.step, b.from, b.to, b.place_sent);
  });
  return recording;
}

RecordingBackend::RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Log> log, GroupIdentity group)
    : ForwardingBackend(std::move(inner)), log_(std::move(log)), group_(std::move(group)) {}

void RecordingBackend::exchange(std::span<const Message> messages, const Call& call) {
  const CallOfRank begun = log_->begin_exchange(group_, world_rank(), messages);
  inner().exchange(messages, call);
  log_->end(begun);
}

std::unique_ptr<Pending> RecordingBackend::begin(const Call& call) {
  if (!call.only_sends()) return nullptr;
  const CallOfRank begun = log_->begin_exchange(group_, world_rank(), call.messages);
  std::unique_ptr<Pending> sending = inner().begin(call);
  log_->end(begun);
  return sending;
}

std::shared_ptr<Backend> RecordingBackend::subset(std::span<const int> ranks, const Call& call) {
  GroupIdentity part = log_->subset(group_, world_rank(), ranks);
  return std::make_shared<RecordingBackend>(inner().subset(ranks, call), log_, std::move(part));
}

std::shared_ptr<Backend> RecordingBackend::for_thread(bool is_for_any_thread) {
  return std::make_shared<RecordingBackend>(inner().for_thread(is_for_any_thread), log_, group_);
}

void RecordingBackend::run_collective(const Call& call) {
  if (!call.algorithm.empty()) return Backend::run_collective(call);  // which uses exchange
  const CallOfRank begun = log_->begin_collective(group_, world_rank());
  inner().run_collective(call);
  log_->end(begun);
}

}  // namespace adjoin::lab
