#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/contract/call.hpp"

namespace adjoin::lab {

namespace flight_file {
struct File;
struct CallSlot;
struct GroupSlot;
}  // namespace flight_file

/// Keeps the last 200 calls of a rank, with their times, in a mapped file: what is in it when the process is killed stays.
/// `adjoin flight` and read_flight_records (lab/flight_reading.hpp) show it. An observer of the rank's world.
///
/// Cost: 30 to 50 ns per call, including its end (build/release/bench/bench_flight_record); some microseconds where the kernel
/// has written the page to disk in the meantime; 65 KB of memory and of disk
class FlightRecord final : public Observer, NotCopied {
 public:
  /// At first in memory only. Throws: std::bad_alloc
  FlightRecord(int rank, int ranks);
  ~FlightRecord() override;

  /// Continues the record in a file, which also gets the calls so far. It replaces an existing file. The disk's blocks are
  /// allocated at once, so that a full disk is reported here and no later store fails.
  /// Throws: IoError; the record is then still in memory
  void keep_in(const std::filesystem::path& file);
  bool is_kept() const { return is_kept_; }

  /// Records that the rank's work has ended well, or that it fails and why. The first call of either counts. Called by any
  /// thread.
  void note_end() noexcept;
  void note_failure(std::string_view why) noexcept;

  void begin(const Call& call) override;
  void end(const Call& call) override;
  void begin_wait(const Call* begun) override;
  void end_wait(const Call* begun) override;

 private:
  flight_file::CallSlot* slot_of(const Call& call) const;
  void note_meeting(const GroupIdentity& group, uint64_t meeting);
  flight_file::GroupSlot* place_for(uint64_t id) const;
  flight_file::GroupSlot* add_group(const GroupIdentity& group);

  flight_file::File* file_;
  std::atomic<bool> is_kept_ = false;
  std::mutex groups_mutex_;  // held by a thread that adds a group
  std::atomic<size_t> groups_ = 0;
  size_t members_ = 0;
};

}  // namespace adjoin::lab
