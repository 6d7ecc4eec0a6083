#include "adjoin/lab/log.hpp"

#include <algorithm>
#include <tuple>

namespace adjoin::lab {

double Log::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

Log::Id Log::begin(Call call) {
  const Id id = calls_.size();
  call.begin = now();
  calls_.push_back(std::move(call));
  events_.push_back({id, /*is_end=*/false});
  return id;
}

Log::Id Log::begin_exchange(const RecordedGroup& group, int rank, std::span<const Message> messages) {
  Call call{.rank = rank, .group = group.name};
  for (const Message& message : messages)
    call.halves.push_back({message.kind == Message::Kind::send, group.members[static_cast<size_t>(message.peer)],
                           message.tag, message.buffer.bytes(), message.buffer.type});
  const std::lock_guard lock(mutex_);
  call.place = ++exchanges_[static_cast<size_t>(rank)];
  return begin(std::move(call));
}

Log::Id Log::begin_collective(const RecordedGroup& group, int rank) {
  const std::lock_guard lock(mutex_);
  return begin({.rank = rank, .group = group.name, .nth = ++collectives_[{group.name, rank}]});
}

void Log::end(Id id) {
  const std::lock_guard lock(mutex_);
  calls_[id].end = now();
  calls_[id].has_ended = true;
  events_.push_back({id, /*is_end=*/true});
}

std::string Log::name_subset(const RecordedGroup& group, int rank, std::span<const int> members) {
  std::string name = group.name + "{";
  for (const int member : members) name += std::to_string(member) + " ";
  const std::lock_guard lock(mutex_);
  return name + "}" + std::to_string(++subsets_[{name, rank}]);
}

// Messages from one sender to one receiver in one group with one tag do not overtake each other, and each rank's calls
// are logged in the order in which they began: so the first send belongs to the first receive, and so on. A call that
// threw was its rank's last one.
std::vector<Log::Pair> Log::pairs() const {
  using Key = std::tuple<std::string, int, int, int>;
  std::map<Key, std::pair<std::vector<Pair>, size_t>> sends;  // and how many of them are already paired with a receive
  const auto for_each_half = [&](bool is_send, const auto& visit) {
    for (Id id = 0; id < calls_.size(); ++id)
      for (const Half& half : calls_[id].halves)
        if (calls_[id].has_ended && half.is_send == is_send) visit(id, calls_[id], half);
  };
  for_each_half(true, [&](Id id, const Call& call, const Half& half) {
    sends[{call.group, call.rank, half.peer, half.tag}].first.push_back({id, id, half});
  });
  std::vector<Pair> pairs;
  for_each_half(false, [&](Id id, const Call& call, const Half& half) {
    auto& [waiting, met] = sends[{call.group, half.peer, call.rank, half.tag}];
    if (met == waiting.size()) return;
    Pair pair = waiting[met++];
    pair.receiver = id;
    pairs.push_back(pair);
  });
  return pairs;
}

// The step that a rank has reached when a call begins is the highest step of its calls that had ended; a message is one
// step later than the higher of its two sides.
std::vector<int64_t> Log::steps_of(std::span<const Pair> pairs) const {
  std::vector<std::vector<size_t>> pairs_of(calls_.size());
  for (size_t i = 0; i < pairs.size(); ++i)
    for (const Id id : {pairs[i].sender, pairs[i].receiver}) pairs_of[id].push_back(i);
  std::vector<int64_t> steps(pairs.size()), before(calls_.size()), reached(static_cast<size_t>(ranks_));
  std::map<std::pair<std::string, uint64_t>, int64_t> met;  // the highest step that a collective's ranks had reached
  for (const Event& event : events_) {
    const Call& call = calls_[event.call];
    int64_t& mine = reached[static_cast<size_t>(call.rank)];
    if (!event.is_end) before[event.call] = mine;
    if (call.nth > 0) {
      int64_t& all = met[{call.group, call.nth}];
      (event.is_end ? mine : all) = std::max(mine, all);
    } else if (event.is_end) {
      for (const size_t i : pairs_of[event.call]) {
        steps[i] = 1 + std::max(before[pairs[i].sender], before[pairs[i].receiver]);
        mine = std::max(mine, steps[i]);
      }
    }
  }
  return steps;
}

Recording Log::recording() const {
  const std::lock_guard lock(mutex_);
  const std::vector<Pair> all = pairs();
  const std::vector<int64_t> steps = steps_of(all);
  Recording recording{.ranks = ranks_, .messages = {}};
  for (size_t i = 0; i < all.size(); ++i) {
    const Call &sender = calls_[all[i].sender], &receiver = calls_[all[i].receiver];
    recording.messages.push_back({.from = sender.rank,
                                  .to = receiver.rank,
                                  .tag = all[i].sent.tag,
                                  .bytes = all[i].sent.bytes,
                                  .type = all[i].sent.type,
                                  .step = steps[i],
                                  .place_sent = sender.place,
                                  .place_received = receiver.place,
                                  .begin = sender.begin,
                                  .end = receiver.end});
  }
  std::stable_sort(recording.messages.begin(), recording.messages.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.from, a.to, a.place_sent) < std::tie(b.step, b.from, b.to, b.place_sent);
  });
  return recording;
}

}  // namespace adjoin::lab
