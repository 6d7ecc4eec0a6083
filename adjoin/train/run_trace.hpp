#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "adjoin/lab/timeline.hpp"
#include "adjoin/lab/trace/trace_file.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/task/traced_steps.hpp"

namespace adjoin::train {

/// The file in the output folder that --trace writes.
inline constexpr const char* kTraceFile = "trace.json.gz";

/// The trace of some steps of a run, and of what happens between them. All ranks call each function together, except add.
class RunTrace {
 public:
  /// A rank is named by its coordinates: "rank 3: replica 1, tp 1". What `timeline` notes in a step is passed to add.
  RunTrace(const Configuration& configuration, const Grid& grid, std::shared_ptr<lab::Timeline> timeline);

  /// To call before a step; returns true if the step is traced.
  bool begin_step(int64_t step);
  /// What this rank did in a step.
  void add(lab::Timeline::Interval interval);
  /// To call after a step and all that follows it; writes the file after the last step of the trace.
  void end_step(int64_t step);
  /// To call where the run ends: writes what was traced so far.
  void end();

 private:
  void write();

  const std::filesystem::path path_;
  const std::optional<StepRange> steps_;
  const Communicator world_;
  const std::string name_;
  const std::shared_ptr<lab::Timeline> timeline_;
  std::optional<lab::RankRecorder> recorder_;  // while steps are traced
  bool is_written_ = false;
};

}  // namespace adjoin::train
