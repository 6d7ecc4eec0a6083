#include "adjoin/lab/trace/one_clock.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

namespace adjoin::lab {
namespace {

/// Ranks that share a clock have equally many readings. For each reading, returns that of the rank with the smallest error.
std::vector<ClockReading> best_readings(std::span<const TracedRank> ranks, std::span<const size_t> of_host) {
  std::vector<ClockReading> best = ranks[of_host[0]].clock;
  for (const size_t rank : of_host)
    for (size_t i = 0; i < best.size(); ++i)
      if (ranks[rank].clock[i].error < best[i].error) best[i] = ranks[rank].clock[i];
  return best;
}

template <class Change>
void change_times(Timeline::Interval& interval, const Change& change) {
  for (TimedCall& call : interval.calls) call.begin = change(call.begin), call.end = change(call.end);
  for (TimedSlice& slice : interval.slices) slice.begin = change(slice.begin), slice.end = change(slice.end);
}

/// The least shift of each host so that no message ends before it begins. Within the errors of the clocks there is such a
/// shift. Where drift leaves none, the result corrects as much as one round per host does.
std::vector<int64_t> shifts_of(std::span<const TracedRank> ranks, std::span<const size_t> host_of, size_t hosts) {
  std::map<std::pair<size_t, size_t>, int64_t> leads;  // how far a host must be shifted beyond another one
  for (const MatchedMessage& message : traced_messages(ranks)) {
    const std::pair between(host_of[message.send.rank], host_of[message.receive.rank]);
    if (between.first == between.second) continue;
    const int64_t lead = ranks[message.send.rank].calls[message.send.call].begin -
                         ranks[message.receive.rank].calls[message.receive.call].end;
    int64_t& largest = leads.try_emplace(between, lead).first->second;
    largest = std::max(largest, lead);
  }
  std::vector<int64_t> shifts(hosts);
  for (size_t round = 0; round < hosts; ++round)
    for (const auto& [between, lead] : leads)
      shifts[between.second] = std::max(shifts[between.second], shifts[between.first] + lead);
  return shifts;
}

}  // namespace

std::vector<TracedHost> put_on_one_clock(std::vector<TracedRank>& ranks) {
  std::map<std::string, size_t> places;
  std::vector<TracedHost> hosts;
  std::vector<std::vector<size_t>> ranks_of;
  std::vector<size_t> host_of;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto [found, is_new] = places.try_emplace(ranks[rank].host, hosts.size());
    if (is_new) hosts.push_back({.name = ranks[rank].host, .ranks = {}}), ranks_of.emplace_back();
    hosts[found->second].ranks.push_back(ranks[rank].rank);
    ranks_of[found->second].push_back(rank);
    host_of.push_back(found->second);
  }
  for (size_t host = 1; host < hosts.size(); ++host) {
    const std::vector<ClockReading> readings = best_readings(ranks, ranks_of[host]);
    for (const ClockReading& reading : readings)
      hosts[host].clock_error = std::max(hosts[host].clock_error, reading.error);
    for (const size_t rank : ranks_of[host])
      change_times(ranks[rank], [&](int64_t time) { return on_clock_of_rank_0(time, readings); });
  }
  if (hosts.size() < 2) return hosts;
  const std::vector<int64_t> shifts = shifts_of(ranks, host_of, hosts.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    change_times(ranks[rank], [shift = shifts[host_of[rank]]](int64_t time) { return time + shift; });
  return hosts;
}

}  // namespace adjoin::lab
