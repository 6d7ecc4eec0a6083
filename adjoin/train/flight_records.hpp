#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/flight_record.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// The flight records of this process's ranks, which a run keeps in the folder `flight` of its output folder.
class FlightRecords {
 public:
  explicit FlightRecords(std::filesystem::path out);

  /// The world of a rank whose calls are recorded from now on, in memory.
  Communicator watch(const Communicator& world);
  /// Goes on in files, in the place of those of an earlier start. Called by all ranks when the output folder is theirs. Where the
  /// disk takes no file, the run goes on without, and a warning says so once.
  void keep(const Communicator& world);

  void note_end();
  /// Notes why the run fails. Returns how to see the records, or "" where no file has one.
  std::string note_failure(const std::string& why);

 private:
  std::filesystem::path out_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<lab::FlightRecord>> of_ranks_;  // of this process
};

/// As run_workers, on worlds that `records` watches, which are told how it ends.
/// Throws: as run_workers; the message of an error then says on its last line how to see the records, where files have them
void run_recorded(const WorkerOptions& options, FlightRecords& records,
                  const std::function<void(const Communicator& world)>& work);

}  // namespace adjoin::train
