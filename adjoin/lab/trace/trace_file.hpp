#pragma once

#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/trace/traced_rank.hpp"

namespace adjoin::lab {

/// Collects what this rank did, for a trace. All ranks of the world call each function together, but add.
class RankRecorder {
 public:
  /// Compares the clocks. `name` is what this rank is called in the trace.
  RankRecorder(const Communicator& world, std::string name);

  /// Adds what this rank did, whose texts outlive gathered().
  void add(Timeline::Taken did);

  /// Compares the clocks again, and gives the records of all ranks on rank 0, none elsewhere. What is added later is for the next
  /// time.
  std::vector<TracedRank> gathered();

 private:
  const Communicator world_;
  TracedRank mine_;
};

/// The bytes of the file of a trace.
std::string trace_file(std::vector<TracedRank> ranks);

}  // namespace adjoin::lab
