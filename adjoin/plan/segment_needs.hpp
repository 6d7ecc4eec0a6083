#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/parallel/bundle.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/plan/step_plan.hpp"
#include "adjoin/task/grid_sizes.hpp"

namespace adjoin::plan {

/// Records the calls of the communicators that it observes, except in groups of one rank.
class PlannedCalls final : public Observer {
 public:
  /// `host_of`: the host of each rank of the job.
  explicit PlannedCalls(std::vector<int> host_of) : host_of_(std::move(host_of)) {}
  void begin(const Call& call) override;
  std::vector<PlannedCall> calls;

 private:
  std::vector<int> host_of_;
  std::mutex mutex_;  // rounds that overlap make calls on two threads
};

/// A rank of a grid whose other ranks do not exist.
struct SilentRank {
  std::shared_ptr<PlannedCalls> calls;
  Grid grid;
  int64_t rows = 0;  ///< of its largest micro-batch

  /// The ranks of a host are neighbours, the same number on each.
  SilentRank(const train::GridSizes& sizes, int rank, int64_t hosts = 1);
};

/// What a segment needs of a rank for one micro-batch, forward and back. Memory is in bytes of tensors.
struct SegmentNeeds {
  int64_t forward = 0;   ///< the most while it runs forward, input included
  int64_t kept = 0;      ///< what it keeps for backward
  int64_t backward = 0;  ///< the most in backward in addition to `kept`, gradients of its weights included
  int64_t retained =
      0;  ///< what stays after its backward, until that of the stage is over and its postponed gradients are computed
  int64_t weight_gradients = 0;  ///< the most while postponed gradients of its weights are computed
  /// The same two where its weights have gradients of an earlier micro-batch, which are not counted here.
  int64_t backward_again = 0, weight_gradients_again = 0;
  std::vector<PlannedCall> calls{};
  std::vector<PlannedCall>
      calls_of_step{};        ///< once after the last backward, for each of its micro-batches these bytes
  size_t forward_calls = 0;   ///< the first of the calls, those in forward
  SegmentSeconds seconds{};   ///< if a clock measures them
  parallel::Bundle output{};  ///< has the shapes and types of its output, without memory; whole numbers as they are
  int64_t ahead = 0;          ///< bytes of its weights where they are gathered while its neighbour runs
  size_t gathers = 0, gathers_again = 0;  ///< the first calls of forward and of backward, which gather its weights
  int64_t tally = 0;                      ///< how many numbers the task's tally has, for the last segment
};

inline const std::set<std::string> kNoNames;

/// A segment to measure, and what it gets.
struct SegmentTrial {
  const train::Configuration& configuration;
  const train::Task& task;
  const models::Segment& segment;
  const Grid& grid;  ///< of the whole job; observed by `calls`
  const train::MicroBatch& batch;
  /// Like the previous segment's output; none for the first segment, which gets the micro-batch's.
  parallel::Bundle input;
  PlannedCalls& calls;
  /// The order of the micro-batch's sums, and who has which lanes; none where sums may have any order.
  std::shared_ptr<const FixedOrder> order = {};
  const HeldLanes* lanes = nullptr;

  /// Its place among the segments of a rank.
  struct {
    bool is_last = false;
    bool holds_input = false;  ///< the input is kept for backward in any case, as a stage's input is
  } place = {};

  struct {
    bool splits = false;                             ///< gradients of weights are computed later
    bool follows = false;                            ///< at once after forward, as in models::ModelImpl::run
    const std::set<std::string>& summed = kNoNames;  ///< the parameters whose gradients are summed during backward
    /// The parts whose gradients an earlier segment of the stage, which names them too, sums with its own; in an order those that
    /// the rank sums after the last backward.
    const std::set<std::string>& summed_earlier = kNoNames;
  } backward = {};
};

/// Makes the segment and runs it, with the loss if it is the last, but without matrix products (SkippedProducts).
SegmentNeeds measure(const SegmentTrial& trial);

/// The output of such a segment, as SegmentNeeds::output.
parallel::Bundle output_of(const SegmentTrial& trial);

struct TimedSegment {
  SegmentSeconds seconds{};
  double lost =
      0;  ///< the share of the time, 0 to 1, in which a worker had no processor; of the worker with the largest
};

/// Times the segment with random weights and input. All `workers` run it at once, each with its own segment: the time of a pass
/// is the mean over the workers, and the result is the median of up to 5 passes, of about `seconds` together, after one that
/// does not count. If a worker has one thread, only the time counts in which it had a processor, so what other programs take
/// does not. With `adds_up`, gradients are added to existing ones. All workers call it and get the same result.
TimedSegment time_segment(const SegmentTrial& trial, bool adds_up, const Communicator& workers, double seconds);

}  // namespace adjoin::plan
