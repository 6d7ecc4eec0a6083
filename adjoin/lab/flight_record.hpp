#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "adjoin/comm/call.hpp"

namespace adjoin::lab {

namespace flight_file {
struct File;
struct CallSlot;
struct GroupSlot;
}  // namespace flight_file

/// Keeps the last 200 calls of a rank, with their times, in a mapped file: what stands there when the process is killed stays,
/// and `adjoin flight` and read_flight_records (lab/flight_reading.hpp) show it. An observer of the rank's world.
///
/// Cost: 30 to 50 ns a call with its end (build/release/bench/bench_flight_record), some microseconds where the kernel has
///       written the page to the disk since; 57 KB of memory and disk
class FlightRecord final : public Observer {
 public:
  /// In memory alone at first. Throws: std::bad_alloc
  FlightRecord(int rank, int ranks);
  ~FlightRecord() override;
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  /// Goes on in a file, which has the calls until now too. It replaces what is there. The disk's blocks are taken at once, so
  /// that a full disk is told here, and no later store fails.
  /// Throws: IoError; the record is then still in memory
  void keep_in(const std::filesystem::path& file);
  bool is_kept() const { return is_kept_; }

  /// The rank's work has ended well; or it fails, and why. The first word counts. Called by any thread.
  void note_end() noexcept;
  void note_failure(std::string_view why) noexcept;

  void begin(const Call& call) override;
  void end(const Call& call) override;
  void begin_wait(const Call* send) override;
  void end_wait(const Call* send) override;

 private:
  flight_file::CallSlot* slot_of(const Call& call) const;
  void note_meeting(const GroupIdentity& group, uint64_t meeting);
  flight_file::GroupSlot* add_group(const GroupIdentity& group);

  flight_file::File* file_;
  std::atomic<bool> is_kept_ = false;
  std::mutex groups_mutex_;  // for who adds one
  std::atomic<size_t> groups_ = 0;
  size_t members_ = 0;
};

}  // namespace adjoin::lab
