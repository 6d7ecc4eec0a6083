#include "adjoin/lab/flight_comparison.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "adjoin/base/text.hpp"

namespace adjoin::lab {

namespace {

using Kind = RecordDifference::Kind;

auto what_must_agree(const CallRecord& call) {
  return std::tuple<std::string_view, std::string_view, ElementType, uint64_t, Reduction, int>(
      call.name, call.algorithm, call.type, call.elements, call.reduction, call.root);
}

/// A group's calls, as recorded by its members.
struct GroupRecords {
  std::vector<int> members;                                                     // empty: unknown
  std::map<int, uint64_t> last;                                                 // meeting that each rank has begun
  std::map<uint64_t, std::vector<std::pair<int, const CallRecord*>>> meetings;  // ranks and their calls
};

std::map<uint64_t, GroupRecords> by_group(const JobRecord& job) {
  std::map<uint64_t, GroupRecords> groups;
  for (const RankRecord& record : job.of_ranks) {
    for (const auto& [id, members] : record.groups) groups[id].members = members;
    for (const auto& [id, meeting] : record.meetings) groups[id].last[record.rank] = meeting;
    for (const CallRecord& call : record.calls)
      if (call.meeting > 0) groups[call.group].meetings[call.meeting].emplace_back(record.rank, &call);
  }
  for (auto& [id, group] : groups)  // a rank may have made the group and never called on it
    for (const RankRecord& record : job.of_ranks)
      if (std::ssize(record.groups) <= kRecordedGroups &&
          std::ranges::find(group.members, record.rank) != group.members.end())
        group.last.try_emplace(record.rank, 0);
  return groups;
}

/// The calls of a meeting; equal calls are grouped together.
std::vector<RecordDifference::Side> sides_of(const std::vector<std::pair<int, const CallRecord*>>& calls) {
  std::vector<RecordDifference::Side> sides;
  for (const auto& [rank, call] : calls) {
    const std::string text = describe(*call);
    auto side = std::ranges::find(sides, text, &RecordDifference::Side::call);
    if (side == sides.end()) side = sides.insert(side, {.ranks = {}, .call = text, .waits = true});
    side->ranks.push_back(rank);
    side->waits &= call->is_open();
  }
  return sides;
}

std::optional<RecordDifference> first_missing(uint64_t id, const GroupRecords& group) {
  if (group.last.empty()) return std::nullopt;
  const auto order = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::ranges::minmax_element(group.last, order);
  if (least->second == most->second) return std::nullopt;
  RecordDifference found{.kind = Kind::missing, .group = id, .members = group.members, .meeting = least->second + 1};
  for (const auto& [rank, last] : group.last)
    if (last < found.meeting) found.absent.push_back(rank);
  if (const auto calls = group.meetings.find(found.meeting); calls != group.meetings.end())
    found.sides = sides_of(calls->second);
  return found;
}

std::optional<RecordDifference> first_different(uint64_t id, const GroupRecords& group) {
  std::optional<RecordDifference> of_places;
  for (const auto& [meeting, calls] : group.meetings) {
    const CallRecord& first = *calls.front().second;
    const auto any = [&](auto differs) {
      return std::ranges::any_of(calls, [&](const auto& call) { return differs(*call.second); });
    };
    const bool is_other = any([&](const CallRecord& c) { return what_must_agree(c) != what_must_agree(first); });
    if (!is_other && (of_places || !any([&](const CallRecord& c) { return c.where() != first.where(); }))) continue;
    RecordDifference found{.kind = is_other ? Kind::different : Kind::places,
                           .group = id,
                           .members = group.members,
                           .meeting = meeting,
                           .sides = sides_of(calls)};
    if (is_other) return found;
    of_places = std::move(found);
  }
  return of_places;
}

const RankRecord* record_of(const JobRecord& job, int rank) {
  const auto found = std::ranges::find(job.of_ranks, rank, &RankRecord::rank);
  return found == job.of_ranks.end() ? nullptr : &*found;
}

/// The calls with one message that a rank waits for: a send, a recv, or one that it has begun before. In a call with
/// several messages it is unknown which one is pending.
std::vector<const CallRecord*> awaited_messages(const RankRecord& record) {
  std::vector<const CallRecord*> awaited;
  for (const CallRecord& call : record.calls) {
    const bool is_waited_for =
        record.wait_begin != 0 && record.wait_number == call.number && record.wait_group == call.group;
    if ((is_waited_for || call.is_open()) && (call.to >= 0) != (call.from >= 0)) awaited.push_back(&call);
  }
  return awaited;
}

/// Whether a rank is in a call that may be the other end of this one, or has been since this one began: the process may have
/// been killed before it knew that its call had ended.
bool meets(const RankRecord& peer, int rank, const CallRecord& call) {
  const auto fits = [&](const CallRecord& other) {
    return other.group == call.group && (other.is_open() || other.end >= call.begin) &&
           (other.exchanged > 0 || (other.tag == call.tag && (call.to >= 0 ? other.from : other.to) == rank));
  };
  if (std::ranges::any_of(peer.calls, fits)) return true;
  const std::vector<const CallRecord*> awaited = awaited_messages(peer);
  return std::ranges::any_of(awaited, [&](const CallRecord* other) {
    return other->group == call.group && other->tag == call.tag && other->to == rank;
  });
}

void add_messages(std::vector<RecordDifference>& found, const JobRecord& job) {
  for (const RankRecord& record : job.of_ranks)
    for (const CallRecord* call : awaited_messages(record)) {
      const int peer = call->to >= 0 ? call->to : call->from;
      const RankRecord* of_peer = record_of(job, peer);
      if (!of_peer || meets(*of_peer, record.rank, *call)) continue;
      found.push_back({.kind = Kind::message,
                       .group = call->group,
                       .members = record.members_of(call->group),
                       .absent = {peer},
                       .sides = {{.ranks = {record.rank}, .call = describe(*call), .waits = true}}});
    }
}

std::string ranks_and_verb(const std::vector<int>& ranks, const char* of_one, const char* of_many) {
  return ranks_text(ranks) + " " + (ranks.size() == 1 ? of_one : of_many);
}

/// The records as they were when the failure was reported. A rank that goes on until it is ended (for example one that had been
/// stopped) begins calls after it that no other rank can join.
JobRecord until_failure(JobRecord job) {
  for (RankRecord& record : job.of_ranks) {
    if (record.host != job.failing_host) continue;  // another host's clock may differ
    std::erase_if(record.calls, [&](const CallRecord& call) {
      const bool is_later = call.begin > job.failed;
      if (is_later && call.meeting > 0)
        record.meetings[call.group] = std::min(record.meetings[call.group], call.meeting - 1);
      return is_later;
    });
  }
  return job;
}

std::vector<RecordDifference> all_differences(const JobRecord& job) {
  std::vector<RecordDifference> found;
  for (const auto& [id, group] : by_group(job)) {
    if (auto different = first_different(id, group)) found.push_back(std::move(*different));
    if (auto missing = first_missing(id, group)) found.push_back(std::move(*missing));
  }
  add_messages(found, job);
  std::ranges::stable_sort(found, {}, [](const RecordDifference& d) { return d.kind == Kind::places; });
  return found;
}

}  // namespace

std::string_view name(RecordDifference::Kind kind) {
  constexpr std::string_view names[] = {"missing", "different", "places", "message"};
  return names[static_cast<int>(kind)];
}

std::vector<RecordDifference> differences(const JobRecord& job) {
  std::vector<RecordDifference> found;
  if (job.failed != 0) found = all_differences(until_failure(job));
  std::erase_if(found, [](const RecordDifference& difference) { return difference.kind == Kind::places; });
  std::set<uint64_t> groups;
  for (const RecordDifference& difference : found) groups.insert(difference.group);
  for (RecordDifference& difference : all_differences(job))
    if (!groups.contains(difference.group)) found.push_back(std::move(difference));
  return found;
}

std::string group_text(uint64_t group, const std::vector<int>& members) {
  if (group == 0) return "";
  return members.empty() ? " on a group of unknown members" : " on group {" + ranges_text(members) + "}";
}

std::string describe(const RecordDifference& difference, const JobRecord& job) {
  const std::string group = group_text(difference.group, difference.members);
  const bool goes_on = job.goes_on();
  if (difference.kind == Kind::message)
    return ranks_text(difference.sides[0].ranks) + (goes_on ? " waits" : " waited") + " in " +
           difference.sides[0].call + group + ", but " + ranks_text(difference.absent) +
           (goes_on ? " has not begun" : " never began") + " the matching call";
  if (difference.kind == Kind::missing) {
    const std::string absent = goes_on ? ranks_and_verb(difference.absent, "has", "have") + " not begun "
                                       : ranks_text(difference.absent) + " never began ";
    if (difference.sides.empty()) return absent + "collective " + std::to_string(difference.meeting) + group;
    std::vector<int> others;
    for (const RecordDifference::Side& side : difference.sides)
      others.insert(others.end(), side.ranks.begin(), side.ranks.end());
    std::ranges::sort(others);
    const bool waits = std::ranges::all_of(difference.sides, &RecordDifference::Side::waits);
    return absent + difference.sides[0].call + group +
           (waits ? ", for which " + ranks_and_verb(others, goes_on ? "waits" : "waited", goes_on ? "wait" : "waited")
                  : ", which " + ranks_text(others) + " began");
  }
  std::vector<std::string> sides;
  for (const RecordDifference::Side& side : difference.sides)
    sides.push_back(ranks_text(side.ranks) + " began " + side.call);
  return (difference.kind == Kind::places ? "the same call at different places" : "the ranks differ") + group + ": " +
         joined(sides, "; ");
}

}  // namespace adjoin::lab
