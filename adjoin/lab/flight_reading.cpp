#include "adjoin/lab/flight_reading.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/base/reduction.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/lab/flight_file.hpp"

namespace adjoin::lab {

using flight_file::CallSlot;
using flight_file::File;
using flight_file::GroupSlot;
namespace fs = std::filesystem;

namespace {

static_assert(kRecordedCalls == flight_file::kCalls && kRecordedGroups == flight_file::kMostGroups);

/// Converts a file's ticks to nanoseconds since 1970.
class WallClock {
 public:
  explicit WallClock(const File& file)
      : first_(file.first), last_{file.last_ticks.load(), file.last_steady.load()}, to_wall_(file.to_wall) {}

  int64_t at(int64_t tick) const { return steady_at(tick, first_, last_) + to_wall_; }

 private:
  TickPair first_, last_;
  int64_t to_wall_;
};

/// Whether the slot holds one call that is whole.
bool is_whole(const CallSlot& slot, const File& file) {
  const CallRecord& call = slot.call;
  const uint64_t place = slot.place.load();
  const auto is_rank = [&](int32_t rank) { return rank >= -1 && rank < file.ranks; };
  return place == slot.place_again.load() && place <= file.calls.load() &&
         static_cast<int>(call.type) < kElementTypes && static_cast<int>(call.reduction) < kReductions &&
         call.count >= 0 && is_rank(call.root) && is_rank(call.to) && is_rank(call.from) && !call.name.empty();
}

CallRecord call_from(const CallSlot& slot, const WallClock& clock) {
  CallRecord call = slot.call;
  call.place = slot.place.load();
  call.has_failed = call.end < 0;
  call.begin = clock.at(call.begin);
  if (call.end != 0) call.end = clock.at(std::abs(call.end));
  return call;
}

std::vector<int> members_of(const GroupSlot& group, const File& file) {
  std::vector<int> members;
  if (group.progressions > flight_file::kMembers / 3 || group.members + 3 * group.progressions > flight_file::kMembers)
    return members;
  const int32_t* progression = file.members + group.members;
  for (uint32_t i = 0; i < group.progressions; ++i, progression += 3)
    for (int32_t n = 0; n < std::min(progression[2], file.ranks); ++n)
      members.push_back(progression[0] + n * progression[1]);
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < file.ranks; };
  return std::ranges::all_of(members, is_rank) ? members : std::vector<int>();
}

RankRecord::State state_of(const File& file) {
  const flight_file::State state = file.state.load();
  if (state == flight_file::State::ended) return RankRecord::State::ended;
  if (state == flight_file::State::failed) return RankRecord::State::failed;
  const bool is_here = file.host == FixedText<64>(host_name());
  return is_here && state_of_process(file.process) == ProcessState::gone ? RankRecord::State::gone
                                                                         : RankRecord::State::runs;
}

/// Throws: InvalidArgument that says what is wrong with the file
std::unique_ptr<File> file_at(const fs::path& path) {
  auto file = std::make_unique<File>();
  std::ifstream stream(path, std::ios::binary);
  require(stream.is_open(), [&] { return path.string() + ": the file cannot be opened"; });
  stream.read(reinterpret_cast<char*>(file.get()), sizeof(File));
  const std::streamsize bytes = stream.gcount();
  require(bytes >= static_cast<std::streamsize>(flight_file::kMagic.size()) && file->magic == flight_file::kMagic,
          [&] { return path.string() + ": is not a flight record of this version"; });
  require(bytes == sizeof(File), [&] {
    return path.string() + ": is truncated: it has " + grouped(bytes) + " of " + grouped(sizeof(File)) + " bytes";
  });
  require(file->ranks >= 1 && file->rank >= 0 && file->rank < file->ranks && file->process > 0,
          [&] { return path.string() + ": is damaged"; });
  return file;
}

RankRecord record_from(const File& file) {
  const WallClock clock(file);
  RankRecord record{.rank = file.rank,
                    .ranks = file.ranks,
                    .host = std::string(file.host),
                    .process = file.process,
                    .state = state_of(file),
                    .begun = clock.at(file.first.ticks),
                    .calls_made = file.calls.load()};
  if (record.state == RankRecord::State::failed) {
    record.failure = std::string(file.failure);
    record.failed = clock.at(file.failed);
  }
  for (const CallSlot& slot : file.slots) {
    if (slot.place.load() == 0 && slot.place_again.load() == 0) continue;
    if (is_whole(slot, file))
      record.calls.push_back(call_from(slot, clock));
    else
      ++record.damaged_calls;
  }
  std::ranges::sort(record.calls, {}, &CallRecord::place);
  record.groups[0] = all_ranks(file.ranks);
  record.meetings[0] = file.world_meeting.load();
  for (const GroupSlot& group : file.groups) {
    const uint64_t id = group.id.load();
    if (id == 0) continue;
    record.groups[id] = members_of(group, file);
    record.meetings[id] = group.meeting.load();
  }
  if (const int64_t begin = file.wait_begin.load(); begin != 0) {
    record.wait_begin = clock.at(begin);
    record.wait_group = file.wait_group.load(), record.wait_number = file.wait_number.load();
  }
  return record;
}

void add(JobRecord& job, const fs::path& path) {
  try {
    RankRecord record = record_from(*file_at(path));
    require(path.filename() == flight_file_name(record.rank) && (job.ranks == 0 || job.ranks == record.ranks),
            [&] { return path.string() + ": is the record of another run or rank"; });
    job.ranks = record.ranks;
    if (record.damaged_calls > 0 && record.state != RankRecord::State::runs)
      job.damage.push_back(path.string() + ": " + counted(record.damaged_calls, "call") + " cannot be read");
    job.of_ranks.push_back(std::move(record));
  } catch (const InvalidArgument& error) {
    job.damage.emplace_back(error.what());
  }
}

}  // namespace

std::string flight_file_name(int rank) {
  return "rank-" + std::to_string(rank) + ".bin";
}

bool JobRecord::goes_on() const {
  return failure.empty() &&
         std::ranges::all_of(of_ranks, [](const RankRecord& r) { return r.state == RankRecord::State::runs; });
}

JobRecord read_flight_records(const fs::path& run) {
  require(fs::exists(run), [&] { return run.string() + ": there is no such folder"; });
  require(fs::is_directory(run), [&] { return run.string() + ": is not a folder"; });
  JobRecord job;
  const fs::path folder = run / kFlightFolder;
  std::error_code none;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().filename().string().starts_with("rank-")) files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) add(job, file);
  require(!files.empty(), [&] {
    return run.string() + ": there is no flight record in it; expected the output folder of a training run";
  });
  std::ranges::sort(job.of_ranks, {}, &RankRecord::rank);
  for (const RankRecord& record : job.of_ranks) {
    for (const CallRecord& call : record.calls) job.last_event = std::max({job.last_event, call.begin, call.end});
    if (record.state != RankRecord::State::failed || (job.failed != 0 && record.failed >= job.failed)) continue;
    job.failed = record.failed;
    job.failure = record.failure;
    job.failing_host = record.host;
  }
  for (int rank = 0; rank < job.ranks; ++rank)
    if (std::ranges::find(job.of_ranks, rank, &RankRecord::rank) == job.of_ranks.end()) job.missing.push_back(rank);
  return job;
}

}  // namespace adjoin::lab
