#include "adjoin/lab/flight_reading.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

#include "adjoin/base/error.hpp"
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

template <size_t N>
std::string text_from(const char (&from)[N]) {
  return {from, ::strnlen(from, N)};
}

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

bool is_call(const CallSlot& slot, const File& file) {
  const uint64_t place = slot.place.load();
  const auto is_rank = [&](int32_t rank) { return rank >= -1 && rank < file.ranks; };
  return place == slot.place_again.load() && place <= file.calls.load() && slot.type < kElementTypes &&
         slot.reduction <= kReductions && slot.count >= 0 && is_rank(slot.root) && is_rank(slot.to) &&
         is_rank(slot.from) && slot.name[0] != 0;
}

RecordedCall call_from(const CallSlot& slot, const File& of, const WallClock& clock) {
  const int64_t end = slot.end.load();
  const std::string file = slot.file < flight_file::kFiles ? text_from(of.files[slot.file].text) : "?";
  return {.state = end == 0  ? RecordedCall::State::pending
                   : end > 0 ? RecordedCall::State::ended
                             : RecordedCall::State::failed,
          .place = slot.place.load(),
          .name = text_from(slot.name),
          .algorithm = text_from(slot.algorithm),
          .where = file.substr(file.rfind('/') + 1) + ":" + std::to_string(slot.line),
          .group = slot.group.load(),
          .number = slot.number.load(),
          .meeting = slot.meeting,
          .type = static_cast<ElementType>(slot.type),
          .count = slot.count,
          .elements = slot.elements,
          .reduction = slot.reduction > 0 ? std::string(name(static_cast<Reduction>(slot.reduction - 1))) : "",
          .root = slot.root,
          .to = slot.to,
          .from = slot.from,
          .tag = slot.tag,
          .messages = slot.messages,
          .begin = clock.at(slot.begin),
          .end = end == 0 ? 0 : clock.at(std::abs(end))};
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

/// Whether there is such a process on this host that still runs, and is not a zombie.
bool lives(int64_t process) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/stat");
  if (std::string line; std::getline(stream, line)) {
    const size_t name_ends = line.rfind(')');  // "17 (name) S …"
    return name_ends == std::string::npos || name_ends + 2 >= line.size() ||
           (line[name_ends + 2] != 'Z' && line[name_ends + 2] != 'X');
  }
  return ::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM;
}

RankRecord::State state_of(const File& file) {
  const flight_file::State state = file.state.load();
  if (state == flight_file::State::ended) return RankRecord::State::ended;
  if (state == flight_file::State::failed) return RankRecord::State::failed;
  char host[sizeof file.host] = {};
  ::gethostname(host, sizeof host - 1);
  const bool is_here = text_from(host) == text_from(file.host);
  return is_here && !lives(file.process) ? RankRecord::State::gone : RankRecord::State::runs;
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
                    .host = text_from(file.host),
                    .process = file.process,
                    .state = state_of(file),
                    .begun = clock.at(file.first.ticks),
                    .calls_made = file.calls.load()};
  if (record.state == RankRecord::State::failed) {
    record.failure = text_from(file.failure);
    record.failed = clock.at(file.failed);
  }
  for (const CallSlot& slot : file.slots) {
    if (slot.place.load() == 0 && slot.place_again.load() == 0) continue;
    if (is_call(slot, file))
      record.calls.push_back(call_from(slot, file, clock));
    else
      ++record.damaged_calls;
  }
  std::ranges::sort(record.calls, {}, &RecordedCall::place);
  record.groups[0].resize(static_cast<size_t>(file.ranks));
  for (int rank = 0; rank < file.ranks; ++rank) record.groups[0][static_cast<size_t>(rank)] = rank;
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

std::string describe(const RecordedCall& call, const std::string& group) {
  std::vector<std::string> parts;
  if (!call.algorithm.empty()) parts.push_back(call.algorithm);
  if (call.root >= 0) parts.push_back("root " + std::to_string(call.root));
  if (call.to >= 0) parts.push_back("to rank " + std::to_string(call.to));
  if (call.from >= 0) parts.push_back("from rank " + std::to_string(call.from));
  if (call.tag >= 0) parts.push_back("tag " + std::to_string(call.tag));
  if (call.to < 0 && call.from < 0 && call.messages > 0) parts.push_back(counted(call.messages, "message"));
  if (!call.reduction.empty()) parts.push_back(call.reduction);
  if (call.name != "barrier") parts.push_back(std::string(name(call.type)) + " x " + std::to_string(call.count));
  return call.name + " #" + std::to_string(call.number) + group + (parts.empty() ? "" : " (" + joined(parts) + ")") +
         " at " + call.where;
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
    for (const RecordedCall& call : record.calls) job.last_event = std::max({job.last_event, call.begin, call.end});
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
