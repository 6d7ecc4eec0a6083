#include "adjoin/cli/flight_report.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/cli/wrap.hpp"
#include "adjoin/lab/flight_comparison.hpp"

namespace adjoin::cli {
namespace {

using lab::JobRecord;
using lab::RankRecord;

constexpr size_t kCallColumn = 20;

std::string in_seconds(int64_t nanoseconds) {
  return text_of_seconds(static_cast<double>(std::max<int64_t>(0, nanoseconds)) / 1e9);
}

/// "2026-11-26 04:51:53 UTC".
std::string date_of(int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%F %T UTC", &time);
  return text.data();
}

/// "ended", "failed", "goes on", or "killed", which means that no rank has noted an end.
std::string_view outcome_of(const JobRecord& job) {
  using State = RankRecord::State;
  if (!job.failure.empty()) return "failed";
  if (job.goes_on()) return "goes on";
  const bool all_ended =
      std::ranges::all_of(job.of_ranks, [](const RankRecord& record) { return record.state == State::ended; });
  return all_ended ? "ended" : "killed";
}

std::string sentence_of(const JobRecord& job) {
  const std::string_view outcome = outcome_of(job);
  if (outcome == "failed") return "it failed: " + job.failure;
  if (outcome == "ended") return "it ended without a failure";
  if (outcome == "goes on") return "it goes on, or was killed on another host";
  return "it did not record why it ended: it was killed, as by kill -9 or for lack of memory";
}

std::string_view name_of(RankRecord::State state) {
  constexpr std::string_view names[] = {"runs", "is gone", "ended", "failed"};
  return names[static_cast<size_t>(state)];
}

std::span<const CallRecord> last_calls(const RankRecord& record, size_t last) {
  const std::span<const CallRecord> all(record.calls);
  return all.last(std::min(last, all.size()));
}

std::string group_of(const RankRecord& record, const CallRecord& call) {
  return lab::group_text(call.group, record.members_of(call.group));
}

std::string duration_of(const CallRecord& call) {
  return call.end == 0 ? "pending" : call.has_failed ? "failed" : in_seconds(call.end - call.begin);
}

/// A line of the table of calls; what does not fit continues below, in the column of calls.
std::string row(const std::string& ago, const std::string& took, const std::string& call) {
  const auto at_right = [](const std::string& text) {
    return std::string(8 - std::min<size_t>(8, text.size()), ' ') + text;
  };
  return wrapped("  " + at_right(ago) + "  " + at_right(took) + "  " + call, kPage, kCallColumn + 4) + "\n";
}

/// What the rank waits for besides its calls, if anything.
std::optional<std::string> wait_of(const RankRecord& record) {
  if (record.wait_begin == 0) return std::nullopt;
  const auto send = std::ranges::find_if(record.calls, [&](const CallRecord& call) {
    return call.group == record.wait_group && call.number == record.wait_number;
  });
  return send == record.calls.end() ? "the wait for an asynchronous operation"
                                    : "the wait for " + describe(*send, group_of(record, *send));
}

std::string text_of(const RankRecord& record, const JobRecord& job, size_t last) {
  const std::span<const CallRecord> calls = last_calls(record, last);
  std::string text = "\nrank " + std::to_string(record.rank) + " (process " + std::to_string(record.process) + " on " +
                     record.host + "): " + std::string(name_of(record.state)) + ", the last " +
                     grouped(std::ssize(calls)) + " of " + grouped(static_cast<int64_t>(record.calls_made)) +
                     " calls\n";
  if (!calls.empty()) text += row("ago", "took", "call");
  for (const CallRecord& call : calls)
    text += row(in_seconds(job.last_event - call.begin), duration_of(call), describe(call, group_of(record, call)));
  if (const auto wait = wait_of(record)) text += row(in_seconds(job.last_event - record.wait_begin), "pending", *wait);
  return text;
}

Json to_json(const CallRecord& call, const RankRecord& record) {
  return {{"place", call.place},
          {"name", std::string(call.name)},
          {"state", call.end == 0     ? "pending"
                    : call.has_failed ? "failed"
                                      : "ended"},
          {"group", record.members_of(call.group)},
          {"group_id", hexadecimal(call.group)},
          {"number", call.number},
          {"meeting", or_null(call.meeting)},
          {"type", name(call.type)},
          {"count", call.count},
          {"bytes", call.bytes()},
          {"reduction", or_null(call.reduction_name())},
          {"algorithm", or_null(std::string_view(call.algorithm))},
          {"root", or_null(call.root, -1)},
          {"to", or_null(call.to, -1)},
          {"from", or_null(call.from, -1)},
          {"tag", or_null(call.tag, -1)},
          {"where", call.where()},
          {"begin", call.begin},
          {"end", or_null(call.end)}};
}

Json to_json(const lab::RecordDifference& difference, const JobRecord& job) {
  return {{"kind", lab::name(difference.kind)},
          {"group", difference.members},
          {"group_id", hexadecimal(difference.group)},
          {"meeting", or_null(difference.meeting)},
          {"absent", difference.absent},
          {"sides", list_of(difference.sides,
                            [](const auto& side) -> Json {
                              return {{"ranks", side.ranks}, {"call", side.call}};
                            })},
          {"text", describe(difference, job)}};
}

Json to_json(const RankRecord& record, size_t last) {
  return {{"rank", record.rank},
          {"host", record.host},
          {"process", record.process},
          {"state", name_of(record.state)},
          {"calls_made", record.calls_made},
          {"waits_since", or_null(record.wait_begin)},
          {"calls", list_of(last_calls(record, last), [&](const auto& call) { return to_json(call, record); })}};
}

}  // namespace

Report report_of(const std::filesystem::path& run, const JobRecord& job, size_t last, bool as_json) {
  std::string text =
      run.string() + ": " + counted(job.ranks, "rank") + ", last call at " + date_of(job.last_event) + "\n";
  text += wrapped(sentence_of(job), kPage, 4) + "\n";
  const std::vector<lab::RecordDifference> differences = lab::differences(job);
  for (const lab::RecordDifference& difference : differences)
    text += wrapped("  - " + describe(difference, job), kPage, 4) + "\n";
  for (const RankRecord& record : job.of_ranks) text += text_of(record, job, last);
  if (!job.missing.empty()) text += "\n" + ranks_text(job.missing) + ": no record\n";
  Report report{as_json};
  report.text << printable(text);
  report.json = {{"run", run.string()},
                 {"ranks", job.ranks},
                 {"outcome", outcome_of(job)},
                 {"failure", or_null(job.failure)},
                 {"last_event", job.last_event},
                 {"differences", list_of(differences, [&](const auto& d) { return to_json(d, job); })},
                 {"records", list_of(job.of_ranks, [&](const auto& record) { return to_json(record, last); })},
                 {"missing", job.missing},
                 {"damage", job.damage}};
  return report;
}

}  // namespace adjoin::cli
