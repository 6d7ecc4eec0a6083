#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "adjoin/plan/job.hpp"
#include "adjoin/plan/measurements.hpp"
#include "adjoin/plan/rounds.hpp"
#include "adjoin/plan/segment_needs.hpp"
#include "adjoin/plan/step_plan.hpp"

namespace adjoin::plan {

/// Measures the parts of steps, on as many workers at once as share this machine's cores, and keeps the results. In an MPI job
/// the processes are the workers; each has a workbench, and all ask theirs for the same.
///
/// It is asked twice: what it does not know counts as 0 seconds until `measure` has measured all that was asked for.
class Workbench {
 public:
  /// `seconds`: the most time for measuring; one segment of each kind, and sizes of calls that were not measured yet, are
  /// measured in any case. A segment for which no time is left gets the time of measured segments of its kind, in proportion to
  /// rows times weights. `tolerance`: as in MeasuredPart; what is not sure is not kept for later plans.
  Workbench(const train::Configuration& configuration, const JobHosts& placement, double seconds, double tolerance,
            bool measures_anew);
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  /// Seconds of a segment: SegmentClock. The trial's task must outlive the next `measure`.
  SegmentSeconds segment(const SegmentTrial& trial, const std::string& name, int64_t rows, int64_t weights);
  /// Seconds of a call on all ranks of its group.
  double call(const PlannedCall& call);
  /// Seconds of a rank's optimizer, without its calls.
  double update(const RankPlan& rank);

  /// Measures in rounds what was asked for and is not known; returns false if there was nothing.
  bool measure();

  /// Seconds spent on measuring so far.
  double spent() const { return spent_; }
  /// How many parts were measured, and of how many of them the readings differ or were disturbed.
  size_t measured() const { return measured_; }
  size_t unsure() const { return unsure_; }
  /// Stores the measurements. Throws: IoError
  void keep();

 private:
  struct Group;  // the ranks of a call, by hosts
  void on_workers(int64_t ranks, const std::function<void(const Communicator& world)>& work);
  /// What is known of a part; nullptr if it must be measured first, which is noted. `kind`: as in MeasuredPart; none: of its own.
  const std::vector<double>* numbers_of(const std::string& name, std::function<Reading()> measure,
                                        const std::string& kind = {});
  double seconds_of(const PlannedCall& call);
  double measured(const std::string& operation, const Group& group, double bytes);
  double point(const std::string& operation, const Group& group, int64_t bytes);
  Reading timed_call(const std::string& operation, const Group& group, int64_t bytes);
  /// Seconds by number of elements, or by the cost of matrices (parallel::MatrixRule).
  Reading timed_update(bool of_matrices);
  /// Times a segment that is not recomputed, with weights that are not cut.
  std::function<Reading()> timing_of(const SegmentTrial& trial);
  void estimate_from_others(const MeasuredPart& part);

  const train::Configuration configuration_;
  const JobHosts placement_;
  const double seconds_, tolerance_;
  const JobSession session_{};
  int64_t workers_;      // at the same time
  int threads_;          // of each worker
  double ranks_a_core_;  // how many ranks share a core
  Measurements measurements_;
  std::map<std::string, MeasuredPart> wanted_{};                                    // by name
  std::map<std::string, std::vector<std::pair<int64_t, std::string>>> segments_{};  // by name: rows and part
  std::map<std::string, std::map<std::string, double>> work_{};   // of segments by kind and part: rows times weights
  std::map<std::tuple<int, int, int, int64_t>, double> calls_{};  // by collective, ranks, span and bytes
  double spent_ = 0;
  size_t measured_ = 0, unsure_ = 0;
};

}  // namespace adjoin::plan
