#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "adjoin/comm/contract/call_record.hpp"

namespace adjoin::lab {

/// What one rank was doing, as it is stored in its flight record (lab/flight_record.hpp). Ranks are those of the world; times are
/// nanoseconds since 1970 by the clock of the rank's host.
struct RankRecord {
  int rank = 0, ranks = 1;  // of the world
  std::string host{};
  int64_t process = 0;
  enum class State : uint8_t { runs, gone, ended, failed };  // gone: the process ended without a record, as by kill -9
  State state = State::runs;                      // a rank whose process is on another host counts as running
  std::string failure{};                          // why it failed, as far as this rank knows
  int64_t failed = 0;                             // when
  int64_t begun = 0;                              // when the record began
  uint64_t calls_made = 0;                        // since then, including those no longer in the record
  std::vector<CallRecord> calls{};                // the last ones, in the order in which they began
  std::map<uint64_t, std::vector<int>> groups{};  // members of each group, in their order; empty where they are unknown
  std::map<uint64_t, uint64_t> meetings{};        // the last meeting of each group that this rank has begun
  int64_t wait_begin = 0;                         // when it began to wait for an operation beside it; 0: it does not
  uint64_t wait_group = 0, wait_number = 0;       // which begun call it waits for; 0: an asynchronous operation
  int64_t damaged_calls = 0;                      // calls that cannot be read, or were being written

  std::vector<int> members_of(uint64_t group) const {
    const auto found = groups.find(group);
    return found == groups.end() ? std::vector<int>() : found->second;
  }
};

/// The flight records of all ranks of a job.
struct JobRecord {
  int ranks = 0;                       // of the world
  std::vector<RankRecord> of_ranks{};  // by rank; those that could be read
  std::vector<int> missing{};          // ranks without a file
  std::vector<std::string> damage{};   // why a file could not be read, or what is wrong in a file
  std::string failure{};               // the first cause, as it was reported; "" where no rank recorded one
  int64_t failed = 0;                  // when it was reported, by the clock of this host:
  std::string failing_host{};
  int64_t last_event = 0;  // the latest begin or end of any rank's call

  /// True unless a record or a process shows that the job is over.
  bool goes_on() const;
};

/// How many calls and groups a rank's record holds; the world is one more group.
inline constexpr int64_t kRecordedCalls = 200, kRecordedGroups = 192;

/// The name of a rank's file in the folder `flight` of a run.
inline constexpr const char* kFlightFolder = "flight";
std::string flight_file_name(int rank);

/// Reads the records of a run, which may still be running. A file that cannot be read is reported in `damage`.
/// Throws: InvalidArgument where there is no such folder, or no flight record in it
JobRecord read_flight_records(const std::filesystem::path& run);

}  // namespace adjoin::lab
