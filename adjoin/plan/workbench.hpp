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

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/plan/measurements.hpp"
#include "adjoin/train/segment_needs.hpp"
#include "adjoin/train/step_plan.hpp"

namespace adjoin::plan {

/// Where the ranks of a job run.
struct Placement {
  int64_t ranks = 1, hosts = 1;                 ///< equally many ranks on each host, next to each other
  std::optional<algorithm::Network> network{};  ///< between hosts, by formula; none: as measured

  int64_t ranks_a_host() const { return ranks / hosts; }
};

/// Keeps MPI initialised while plans, checks of them and a training follow each other in one job; does nothing where there is no
/// job. Made and left by all of its processes together.
class JobSession {
 public:
  JobSession();

 private:
  std::optional<MpiSession> session_;
};

/// Measures what steps are made of, on as many workers at once as share this machine's cores, and keeps it. In an MPI job its
/// processes are the workers, each of which has a workbench and asks it for the same.
class Workbench {
 public:
  /// `seconds`: so long it measures at most, but for one segment of each kind and the sizes of calls that it has not seen. What it
  /// has no time for is said to take as long, for its rows and weights, as those of its kind do.
  Workbench(const train::Configuration& configuration, const Placement& placement, double seconds, bool measures_anew);
  ~Workbench();
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  /// Seconds of a segment: train::SegmentClock.
  train::SegmentSeconds segment(const train::SegmentTrial& trial, const std::string& name, int64_t rows,
                                int64_t weights);
  /// Seconds of a call on all ranks of its group.
  double call(const train::PlannedCall& call);
  /// Seconds in which an optimizer updates so many elements of weights, without its calls.
  double update(int64_t elements);

  /// Seconds that were spent measuring.
  double spent() const { return spent_; }
  /// Keeps what was measured. Throws: IoError
  void keep();

 private:
  struct Group;  // the ranks of a call as hosts see them
  void on_workers(int64_t ranks, const std::function<void(const Communicator& world)>& work);
  double seconds_of(const train::PlannedCall& call);
  double measured(const std::string& operation, const Group& group, double bytes);
  double point(const std::string& operation, const Group& group, int64_t bytes);
  train::SegmentSeconds timed(const train::SegmentTrial& trial);  // not recomputed, with weights that are not cut
  train::TimingEffort effort() const;

  const train::Configuration configuration_;
  const Placement placement_;
  const double seconds_;
  const JobSession session_{};
  int64_t workers_;  // at once
  int threads_;      // of each
  double stretch_;   // ranks that share a core
  Measurements measurements_;
  std::map<std::string, std::vector<std::pair<int64_t, train::SegmentSeconds>>> segments_{};  // by name, with rows
  struct OfKind {
    double work = 0;  // rows times weights
    train::SegmentSeconds seconds{};
  };
  std::map<std::string, OfKind> kinds_{};                         // what was measured of them together
  std::map<std::tuple<int, int, int, int64_t>, double> calls_{};  // by collective, ranks, span and bytes
  double spent_ = 0;
};

}  // namespace adjoin::plan
