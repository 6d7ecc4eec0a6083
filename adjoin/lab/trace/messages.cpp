#include "adjoin/lab/trace/messages.hpp"

#include <unordered_map>

#include "adjoin/lab/meetings.hpp"

namespace adjoin::lab {
namespace {

std::vector<MeetingCall> meeting_calls(const TracedRank& record) {
  return MeetingCalls(record.rank).of(record.did);
}

}  // namespace

std::vector<TracedMessage> traced_messages(std::span<const TracedRank> ranks) {
  std::unordered_map<uint64_t, TracedCall> sends;
  struct Received {
    uint64_t point;
    TracedCall by;
  };
  std::vector<Received> received;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<TimedCall>& calls = ranks[rank].did.calls;
    const std::vector<MeetingCall> meetings = meeting_calls(ranks[rank]);
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].kind != TimedCall::Kind::messages) continue;
      for (size_t m = 0; m < calls[i].messages.size(); ++m) {
        const uint64_t point = meetings[i].points[m];
        if (calls[i].messages[m].is_send)
          sends.emplace(point, TracedCall{rank, i});
        else
          received.push_back({point, {rank, i}});
      }
    }
  }
  std::vector<TracedMessage> messages;
  for (const Received& one : received)
    if (const auto send = sends.find(one.point); send != sends.end()) messages.push_back({send->second, one.by});
  return messages;
}

std::vector<std::vector<int64_t>> ready_times(std::span<const TracedRank> ranks) {
  Meetings meetings;
  std::vector<std::vector<MeetingCall>> calls;
  for (const TracedRank& rank : ranks) meetings.add(calls.emplace_back(meeting_calls(rank)));
  std::vector<std::vector<int64_t>> ready;
  for (const std::vector<MeetingCall>& of_rank : calls) {
    std::vector<int64_t>& times = ready.emplace_back();
    for (const MeetingCall& call : of_rank) times.push_back(meetings.all_there(call));
  }
  return ready;
}

}  // namespace adjoin::lab
