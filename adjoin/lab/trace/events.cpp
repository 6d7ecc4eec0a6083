#include "adjoin/lab/trace/events.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "adjoin/base/text.hpp"
#include "adjoin/base/version.hpp"

namespace adjoin::lab {
namespace {

using nlohmann::ordered_json;

/// A complete event that is still to be written: a slice or a call.
struct Span {
  int64_t begin = 0, end = 0;
  const TimedSlice* slice = nullptr;
  size_t call = 0;  // index of the call, if it is not a slice
};

/// A list of events, written one after another.
class EventFile {
 public:
  EventFile(const std::function<void(std::string_view)>& text, int64_t origin) : text_(text), origin_(origin) {}

  void begin(const ordered_json& about) {
    text_("{\"displayTimeUnit\": \"ns\",\n\"otherData\": " + as_text(about) + ",\n\"traceEvents\": [");
  }
  void add(const ordered_json& event) { text_(std::exchange(between_, ",\n") + as_text(event)); }
  void end() { text_("\n]}\n"); }

  void name(const char* what, int rank, int thread, const char* key, const ordered_json& value) {
    add({{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{key, value}}}});
  }
  void add_complete(const std::string& name, const char* category, int rank, int thread, int64_t begin, int64_t end,
                    ordered_json args = {}) {
    ordered_json event{{"ph", "X"},
                       {"name", name},
                       {"cat", category},
                       {"pid", rank},
                       {"tid", thread},
                       {"ts", microseconds(begin - origin_)},
                       {"dur", microseconds(end - begin)}};
    if (!args.empty()) event["args"] = std::move(args);
    add(event);
  }
  void add_end_of_flow(const char* phase, size_t id, int rank, int thread, int64_t at) {
    ordered_json event{{"ph", phase},
                       {"name", "message"},
                       {"cat", "message"},
                       {"id", id},
                       {"pid", rank},
                       {"tid", thread},
                       {"ts", microseconds(at - origin_)}};
    if (*phase == 'f') event["bp"] = "e";  // binds to the enclosing slice, not to the next one
    add(event);
  }

 private:
  static double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }
  static std::string as_text(const ordered_json& json) {
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);  // file names may hold any bytes
  }

  const std::function<void(std::string_view)>& text_;
  const int64_t origin_;
  std::string between_ = "\n";
};

int64_t first_begin(std::span<const TracedRank> ranks) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const TracedRank& rank : ranks) {
    for (const TimedCall& call : rank.calls) first = std::min(first, call.begin);
    for (const TimedSlice& slice : rank.slices) first = std::min(first, slice.begin);
  }
  return first == std::numeric_limits<int64_t>::max() ? 0 : first;
}

/// For each call of each rank, when the last rank that it needs had begun the same.
std::vector<std::vector<int64_t>> last_arrivals(std::span<const TracedRank> ranks) {
  Meetings meetings;
  std::vector<std::vector<MeetingCall>> calls;
  for (const TracedRank& rank : ranks) meetings.add(calls.emplace_back(MeetingCalls(rank.rank).of(rank)));
  std::vector<std::vector<int64_t>> arrivals;
  for (const std::vector<MeetingCall>& of_rank : calls) {
    arrivals.emplace_back();
    for (const MeetingCall& call : of_rank) arrivals.back().push_back(meetings.last_arrival(call));
  }
  return arrivals;
}

/// The threads of a rank: its own, and for operations beside it as many as are needed so that no two calls of one thread
/// overlap.
std::vector<std::vector<Span>> threads_of(const Timeline::Interval& interval) {
  std::vector<std::vector<Span>> threads(1);
  std::vector<Span> beside;
  for (const TimedSlice& slice : interval.slices) threads[0].push_back({slice.begin, slice.end, &slice});
  for (size_t i = 0; i < interval.calls.size(); ++i)
    (interval.calls[i].is_beside ? beside : threads[0])
        .push_back({interval.calls[i].begin, interval.calls[i].end, nullptr, i});
  // An event that encloses others must come before them. It ends later, so of two with equal times it is the later one in the
  // list.
  std::ranges::reverse(threads[0]);
  const auto order = [](const Span& a, const Span& b) {
    return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
  };
  std::ranges::stable_sort(threads[0], order);
  std::ranges::stable_sort(beside, order);
  for (const Span& piece : beside) {
    const auto is_free = [&](const std::vector<Span>& thread) { return thread.back().end <= piece.begin; };
    const auto found = std::find_if(threads.begin() + 1, threads.end(), is_free);
    if (found == threads.end())
      threads.push_back({piece});
    else
      found->push_back(piece);
  }
  return threads;
}

ordered_json arguments_of(const TimedCall& call, const std::map<uint64_t, std::vector<int>>& groups) {
  ordered_json args{{"operation", std::string(call.name)}, {"bytes", call.bytes()}};
  if (const auto group = groups.find(call.group); group != groups.end()) args["group"] = ranks_text(group->second);
  args["number"] = call.number;
  args["place"] = call.where();
  if (!call.algorithm.empty()) args["algorithm"] = std::string(call.algorithm);
  for (const TimedMessage& message : call.messages) {
    ordered_json& list = args[message.is_send ? "sends" : "receives"];
    list.push_back({{"rank", message.peer}, {"tag", message.tag}, {"bytes", message.bytes}});
  }
  return args;
}

void add_slice(EventFile& file, int rank, int thread, const TimedSlice& slice) {
  std::string name(slice.name);
  if (slice.number >= 0) name += " " + std::to_string(slice.number);
  ordered_json args;
  if (slice.stage >= 0) args = {{"stage", slice.stage}, {"micro_batch", slice.number}};
  file.add_complete(name, "work", rank, thread, slice.begin, slice.end, std::move(args));
}

/// `ready`: when the last rank that the call needs had begun it.
void add_call(EventFile& file, int rank, int thread, const TimedCall& call, int64_t ready,
              const std::map<uint64_t, std::vector<int>>& groups) {
  constexpr const char* kCategory = "communication";
  // For a wait for an asynchronous operation nothing else is known.
  const bool is_told = call.kind != CallRecord::Kind::wait || call.number != 0;
  ordered_json args;
  if (is_told) args = arguments_of(call, groups);
  file.add_complete(std::string(call.name), kCategory, rank, thread, call.begin, call.end, std::move(args));
  if (!is_told) return;
  const int64_t between = std::clamp(ready, call.begin, call.end);
  if (call.begin < between) file.add_complete("waiting", kCategory, rank, thread, call.begin, between);
  if (between < call.end) file.add_complete("moving", kCategory, rank, thread, between, call.end);
}

/// Returns the thread of each of the rank's calls. `thread` is the number of the rank's first thread, and on return that of the
/// next rank's: viewers treat threads of two processes as one where their numbers are equal.
std::vector<int> add_rank(EventFile& file, const TracedRank& record, std::span<const int64_t> ready, int& thread) {
  const int rank = record.rank, own = thread;
  std::vector<int> thread_of_call(record.calls.size());
  file.name("process_name", rank, own, "name", record.name);
  file.name("process_sort_index", rank, own, "sort_index", rank);
  for (const std::vector<Span>& pieces : threads_of(record)) {
    file.name("thread_name", rank, thread, "name", thread == own ? "its own thread" : "beside");
    file.name("thread_sort_index", rank, thread, "sort_index", thread);
    for (const Span& piece : pieces) {
      if (piece.slice) {
        add_slice(file, rank, thread, *piece.slice);
        continue;
      }
      thread_of_call[piece.call] = thread;
      add_call(file, rank, thread, record.calls[piece.call], ready[piece.call], record.groups);
    }
    ++thread;
  }
  return thread_of_call;
}

}  // namespace

void write_trace_events(std::span<const TracedRank> ranks, std::span<const TracedHost> hosts,
                        const std::function<void(std::string_view)>& text) {
  EventFile file(text, first_begin(ranks));
  ordered_json about{{"program", "adjoin " + std::string(kVersion)}, {"ranks", ranks.size()}};
  for (const TracedHost& host : hosts)
    about["hosts"].push_back({{"name", host.name},
                              {"ranks", ranges_text(host.ranks)},
                              {"clock_error_us", static_cast<double>(host.clock_error) / 1000}});
  file.begin(about);
  const std::vector<MatchedMessage> messages = traced_messages(ranks);
  const std::vector<std::vector<int64_t>> ready = last_arrivals(ranks);
  std::vector<std::vector<int>> thread_of_call;
  int thread = 1;
  for (size_t i = 0; i < ranks.size(); ++i) thread_of_call.push_back(add_rank(file, ranks[i], ready[i], thread));
  for (size_t id = 0; id < messages.size(); ++id) {
    const auto& [send, receive, sent_message] = messages[id];
    const TracedRank &sender = ranks[send.rank], &receiver = ranks[receive.rank];
    const TimedCall &sent = sender.calls[send.call], &received = receiver.calls[receive.call];
    file.add_end_of_flow("s", id, sender.rank, thread_of_call[send.rank][send.call], sent.begin);
    // Within the receive; the moment of its end is already outside.
    file.add_end_of_flow("f", id, receiver.rank, thread_of_call[receive.rank][receive.call],
                         std::max(received.begin, received.end - 1));
  }
  file.end();
}

}  // namespace adjoin::lab
