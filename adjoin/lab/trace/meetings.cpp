#include "adjoin/lab/trace/meetings.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace adjoin::lab {
namespace {

using Kind = TimedCall::Kind;

/// One end of a message, in the order of its rank's messages.
struct End {
  uint64_t number = 0;
  TracedCall of;
  int64_t bytes = 0;
};
struct Ends {
  std::vector<End> sends, receives;
};

/// Whether the call itself waits until its messages have been received.
bool waits_for_receiver(const TimedCall& call) {
  return call.name != "isend";
}

}  // namespace

std::vector<TracedMessage> traced_messages(std::span<const RankRecord> ranks) {
  std::map<std::tuple<uint64_t, int, int, int>, Ends> ends;  // by group, sender, receiver and tag
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<TimedCall>& calls = ranks[rank].did.calls;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].kind != Kind::messages) continue;
      for (const TimedMessage& message : calls[i].messages) {
        const int here = ranks[rank].rank;
        const auto [from, to] = message.is_send ? std::pair(here, message.peer) : std::pair(message.peer, here);
        Ends& of = ends[{calls[i].group, from, to, message.tag}];
        (message.is_send ? of.sends : of.receives).push_back({calls[i].number, {rank, i}, message.bytes});
      }
    }
  }
  std::vector<TracedMessage> messages;
  for (auto& [key, of] : ends) {
    for (std::vector<End>* const side : {&of.sends, &of.receives}) std::ranges::stable_sort(*side, {}, &End::number);
    for (size_t i = 0; i < std::min(of.sends.size(), of.receives.size()); ++i)
      messages.push_back({of.sends[i].of, of.receives[i].of, std::get<3>(key), of.sends[i].bytes});
  }
  return messages;
}

std::vector<std::vector<int64_t>> ready_times(std::span<const RankRecord> ranks,
                                              std::span<const TracedMessage> messages) {
  const auto call_of = [&](const TracedCall& at) -> const TimedCall& { return ranks[at.rank].did.calls[at.call]; };
  std::vector<std::vector<int64_t>> ready(ranks.size());
  std::map<std::pair<uint64_t, uint64_t>, int64_t> last_begins;  // of collectives, by group and meeting
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const TimedCall& call : ranks[rank].did.calls) {
      ready[rank].push_back(call.begin);
      if (call.kind != Kind::collective) continue;
      int64_t& last = last_begins.try_emplace({call.group, call.meeting}, call.begin).first->second;
      last = std::max(last, call.begin);
    }
  const auto at_least = [&](const TracedCall& at, int64_t begin) {
    int64_t& mine = ready[at.rank][at.call];
    mine = std::max(mine, begin);
  };
  std::map<std::tuple<size_t, uint64_t, uint64_t>, int64_t> receivers;  // of sends that go on beside
  for (const TracedMessage& message : messages) {
    const TimedCall &send = call_of(message.send), &receive = call_of(message.receive);
    at_least(message.receive, send.begin);
    if (waits_for_receiver(send))
      at_least(message.send, receive.begin);
    else
      receivers[{message.send.rank, send.group, send.number}] = receive.begin;
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t i = 0; i < ready[rank].size(); ++i) {
      const TimedCall& call = ranks[rank].did.calls[i];
      if (call.kind == Kind::collective) ready[rank][i] = last_begins.at({call.group, call.meeting});
      if (call.kind != Kind::wait) continue;
      const auto found = receivers.find({rank, call.group, call.number});
      if (found != receivers.end()) at_least({rank, i}, found->second);
    }
  return ready;
}

}  // namespace adjoin::lab
