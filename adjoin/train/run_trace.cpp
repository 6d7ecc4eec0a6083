#include "adjoin/train/run_trace.hpp"

#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/store/output_file.hpp"

namespace adjoin::train {
namespace {

std::string name_of_rank(const Grid& grid) {
  std::vector<std::string> coordinates;
  for (const GridShape::Axis& axis : grid.shape().axes())
    if (axis.size > 1) coordinates.push_back(axis.name + " " + std::to_string(grid.coordinate(axis.name)));
  return "rank " + std::to_string(grid.world().rank()) + (coordinates.empty() ? "" : ": " + joined(coordinates));
}

}  // namespace

RunTrace::RunTrace(const Configuration& configuration, const Grid& grid, std::shared_ptr<lab::Timeline> timeline)
    : path_(std::filesystem::path(configuration.out) / kTraceFile),
      steps_(traced_steps(configuration)),
      world_(grid.world()),
      name_(name_of_rank(grid)),
      timeline_(std::move(timeline)) {}

bool RunTrace::begin_step(int64_t step) {
  if (!recorder_ && steps_ && step == steps_->first) {
    recorder_.emplace(world_, name_);
    timeline_->take();  // drops the time before
  }
  return recorder_.has_value();
}

void RunTrace::add(lab::Timeline::Interval interval) {
  if (recorder_) recorder_->add(std::move(interval));
}

void RunTrace::end_step(int64_t step) {
  if (recorder_ && step == steps_->last) write();
}

void RunTrace::end() {
  if (recorder_) return write();
  if (steps_ && !is_written_ && world_.rank() == 0)
    note("warning: the run ended before step " + std::to_string(steps_->first) + ", with which --trace begins");
}

void RunTrace::write() {
  is_written_ = true;
  add(timeline_->take());
  std::vector<lab::TracedRank> ranks = recorder_->gathered();
  recorder_.reset();
  std::string failure;
  on_root(world_, "writing " + path_.string(),
          [&] { failure = refusal_of([&] { write_atomically(path_, lab::trace_file(std::move(ranks))); }); });
  if (!failure.empty()) note("warning: there is no trace: " + failure);
}

}  // namespace adjoin::train
