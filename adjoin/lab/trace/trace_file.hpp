#pragma once

#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/trace/rank_record.hpp"

namespace adjoin::lab {

/// The file of a trace, of what each rank tells. All ranks of the world call each function together, but add.
class TraceFile {
 public:
  /// Compares the clocks. `name` is what this rank is called in the file.
  TraceFile(const Communicator& world, std::string name);

  /// Adds what this rank did. Its texts outlive bytes().
  void add(Timeline::Taken did);

  /// Compares the clocks again, and gives the file on rank 0, "" elsewhere. What is added later is of another file.
  std::string bytes();

 private:
  const Communicator world_;
  RankRecord mine_;
};

}  // namespace adjoin::lab
