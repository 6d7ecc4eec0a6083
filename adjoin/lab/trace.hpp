#pragma once

#include <memory>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/timeline.hpp"

namespace adjoin::lab {

/// What each rank of a program does and when, as a file for ui.perfetto.dev and chrome://tracing: its calls, and the work between
/// them that it names by a TimeSlice. docs/seeing.md explains the file.
///
/// Cost: some 50 ns a call or slice, and 150 bytes of memory until it is written; over several hosts 20 small messages of each rank
///       to compare the clocks
class Trace {
 public:
  /// Called by all ranks of the world, each on the thread whose slices are to be seen. `name` is what this rank is called in the
  /// file; "": "rank 3".
  explicit Trace(const Communicator& world, std::string name = {});
  ~Trace();

  /// The same world with all calls noted, of groups and streams made from it too.
  const Communicator& world() const { return world_; }

  /// Writes what the ranks have done since they made the trace, or since they wrote it last; called by all of them, while no message
  /// is under way. A call or slice that is still open will stand in the next file.
  /// Throws: IoError on rank 0 where the file cannot be written
  void write(const std::string& path);

 private:
  const std::shared_ptr<Timeline> timeline_;
  const Communicator world_;
  std::unique_ptr<class RankRecorder> recorder_;
};

}  // namespace adjoin::lab
