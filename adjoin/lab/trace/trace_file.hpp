#pragma once

#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/trace/traced_rank.hpp"

namespace adjoin::lab {

/// Collects what this rank did, for a trace. All ranks of the world call each function together, except add.
class RankRecorder {
 public:
  /// Compares the clocks. `name` is this rank's name in the trace.
  RankRecorder(const Communicator& world, std::string name);

  /// Adds what this rank did. The texts in it must outlive gathered().
  void add(Timeline::Interval interval);

  /// Compares the clocks again, and returns the records of all ranks on rank 0, none on other ranks. What is added later is for
  /// the next call.
  std::vector<TracedRank> gathered();

 private:
  const Communicator world_;
  TracedRank mine_;
};

/// The bytes of a trace file.
std::string trace_file(std::vector<TracedRank> ranks);

}  // namespace adjoin::lab
