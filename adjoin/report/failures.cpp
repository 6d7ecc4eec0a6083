#include "adjoin/report/failures.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/lab/flight_reading.hpp"
#include "adjoin/lab/svg.hpp"

namespace adjoin::report {
namespace {

using lab::RankRecord;

constexpr size_t kMostShownRanks = 32;

std::string state_of(const RankRecord& rank, const std::string& known_failure) {
  switch (rank.state) {
    case RankRecord::State::runs:
      return "had not ended";
    case RankRecord::State::gone:
      return "its process is gone without recording an end";
    case RankRecord::State::ended:
      return "has ended";
    case RankRecord::State::failed:
      return rank.failure == known_failure ? "failed" : "failed: " + rank.failure;
  }
  return "";
}

std::string line_of(const RankRecord& rank, const std::string& known_failure) {
  std::string line = "rank " + std::to_string(rank.rank) + ": " + state_of(rank, known_failure);
  if (!rank.calls.empty())
    line += std::string("; its last call ") + (rank.calls.back().end == 0 ? "has not ended: " : "was ") +
            describe(rank.calls.back());
  return line;
}

bool is_trouble(const RankRecord& rank) {
  return rank.state == RankRecord::State::gone || rank.state == RankRecord::State::failed;
}

}  // namespace

std::string failure_html(const Run& run) {
  lab::JobRecord job;
  try {
    job = lab::read_flight_records(run.name);
  } catch (const Error&) {  // an earlier version has written none
    return "";
  }
  if (job.failure.empty() && std::ranges::none_of(job.of_ranks, is_trouble)) return "";
  std::string lines;
  for (size_t i = 0; i < std::min(job.of_ranks.size(), kMostShownRanks); ++i)
    lines += line_of(job.of_ranks[i], job.failure) + "\n";
  if (job.of_ranks.size() > kMostShownRanks)
    lines += "and " + counted(std::ssize(job.of_ranks) - static_cast<int64_t>(kMostShownRanks), "rank") + " more\n";
  for (const int rank : job.missing) lines += "rank " + std::to_string(rank) + ": has no record\n";
  return (job.failure.empty() ? "" : "<p class=\"trouble\">" + lab::escaped_markup(job.failure) + "</p>") + "<pre>" +
         lab::escaped_markup(lines) + "</pre>\n<p class=\"note\">adjoin flight " + lab::escaped_markup(run.name) +
         " shows the last calls of each rank.</p>";
}

}  // namespace adjoin::report
