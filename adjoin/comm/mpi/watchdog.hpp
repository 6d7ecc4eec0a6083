#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/comm/diagnosis.hpp"
#include "adjoin/comm/mpi/pending_table.hpp"

namespace adjoin::mpi {

/// What all threads of all ranks are in, as one host's table shows it; ranks of other hosts count as running.
struct Seen {
  std::vector<diagnosis::Worker> workers;
  std::vector<const AgentEntry*> agents;  // of each worker; nullptr for what stands for more than the table shows
};
Seen look_at(const PendingTable& table, int world_size);

/// Looks at a host's table again and again, and reports what can never end, and what takes longer than the deadline.
///
/// Processes write while it reads, and MPI may have moved a message whose owner has not heard of it. So what looks stuck
/// is believed when it has looked so, unchanged, for a second.
class Watchdog {
 public:
  /// `report` is called once, on the watchdog's thread.
  Watchdog(PendingTable table, int world_size, std::chrono::milliseconds deadline,
           std::function<void(const std::string&)> report);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  /// Since when an agent is in one call, and since when it looks stuck in it.
  struct History {
    uint64_t version = 0;
    Clock::time_point in_call_since = {}, stuck_since = {};
    bool is_stuck = false;
  };

  void watch();
  std::string look();

  const PendingTable table_;
  const int world_size_;
  const std::chrono::milliseconds deadline_;
  const std::function<void(const std::string&)> report_;

  std::map<const AgentEntry*, History> histories_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace adjoin::mpi
