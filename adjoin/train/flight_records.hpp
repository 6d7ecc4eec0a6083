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

  /// A world for a rank; its calls are recorded from now on, in memory.
  Communicator watch(const Communicator& world);
  /// From now on records in files, which replace those of an earlier start. All ranks call it once the output folder is theirs.
  /// Where the disk accepts no file, the run goes on without files, and a warning says so once.
  void keep(const Communicator& world);

  void note_end();
  /// Notes why the run fails. Returns how to see the records, or "" where no file has any.
  std::string note_failure(const std::string& why);

 private:
  std::filesystem::path out_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<lab::FlightRecord>> of_ranks_;  // of this process, by rank
};

/// Like run_workers, on worlds that `records` watches; the records note how the run ends.
/// Throws: as run_workers; where files have records, the last line of the error's message says how to see them
void run_recorded(const Configuration& configuration, FlightRecords& records,
                  const std::function<void(const Communicator& world)>& work);

}  // namespace adjoin::train
