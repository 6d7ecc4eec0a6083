#pragma once

#include <memory>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/timeline.hpp"

namespace adjoin::lab {

/// Writes what each rank of a program does and when to a file for ui.perfetto.dev and chrome://tracing: its calls, and the work
/// between them that a TimeSlice names. docs/seeing.md explains the file.
///
/// Cost: about 50 ns per call or slice, and 200 bytes of memory until it is written; over several hosts 20 small messages of
/// each rank to compare the clocks
class Trace {
 public:
  /// Called by all ranks of the world, each on the thread whose slices the trace shows. `name` is this rank's name in the file;
  /// "" means "rank 3".
  explicit Trace(const Communicator& world, std::string name = {});
  ~Trace();

  /// The same world, with all calls recorded, including those of groups and streams made from it.
  const Communicator& world() const { return world_; }

  /// Writes what the ranks have done since they made the trace or last wrote it. Called by all of them, while no message is
  /// being sent. A call or slice that has not ended will be in the next file.
  /// Throws: IoError on rank 0 where the file cannot be written
  void write(const std::string& path);

 private:
  const std::shared_ptr<Timeline> timeline_;
  const Communicator world_;
  std::unique_ptr<class RankRecorder> recorder_;
};

}  // namespace adjoin::lab
