#include "adjoin/plan/segment_needs.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "adjoin/lab/measure/stopwatch.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/lab/silent_backend.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/movement/postponed.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/bucket_sum.hpp"
#include "adjoin/plan/skipped_products.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/train/autocast.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

constexpr int64_t kCachedBytes = int64_t{16} << 20;  // about the cache of a rank
constexpr int kMostPasses = 5;                       // timed at once

std::vector<int> hosts_of_ranks(int64_t ranks, int64_t hosts) {
  std::vector<int> host_of;
  for (int64_t rank = 0; rank < ranks; ++rank) host_of.push_back(static_cast<int>(rank * hosts / ranks));
  return host_of;
}

/// The output of the segment before, as zeros that an operation makes, so that only autograd keeps them.
at::Tensor stand_in(const at::Tensor& output) {
  const at::Tensor number = at::zeros({1}, output.options().device(at::kCPU)).requires_grad_(output.requires_grad());
  return number.expand(output.sizes()).clone(at::MemoryFormat::Contiguous);
}

std::vector<nn::Parameter> pieces_of(const models::Model& model) {
  std::vector<nn::Parameter> all;
  for (const auto& part : model->named_children())
    std::ranges::move(model->pieces(part.key()), std::back_inserter(all));
  return all;
}

models::Model made(const SegmentTrial& trial) {
  const Grid stage = trial.grid.at("pp", trial.grid.coordinate("pp"));
  models::Model model(std::vector<models::Segment>{trial.segment}, stage, weight_type(trial.configuration.precision),
                      sharding_of(trial.configuration));
  const at::NoGradGuard no_gradient;
  for (const nn::Parameter& parameter : pieces_of(model))
    if (parameter.initial) parameter.tensor.zero_();  // any finite number works
  return model;
}

using Sums = std::vector<std::unique_ptr<parallel::BucketSum>>;

Sums sums_in_backward_of(const models::Model& model, const std::set<std::string>& summed) {
  using parallel::BucketSum;
  Sums sums;
  for (const nn::Parameter& parameter : parameters_of(model))
    if (summed.contains(parameter.name))
      sums.push_back(std::make_unique<BucketSum>(
          std::vector{parameter}, parallel::Bucket({parallel::reals_of(parameter)}, {0}), BucketSum::When::each_time));
  return sums;
}

int64_t bytes_of_gradients(const models::Model& model, const Sums& sums) {
  int64_t bytes = 0;
  for (const auto& sum : sums) bytes += sum->bytes();
  for (const auto& [part, of_part] : model->shards()) bytes += of_part->gradient_bytes();
  for (const at::Tensor& weight : model->parameters())
    if (weight.grad().defined()) bytes += static_cast<int64_t>(weight.grad().nbytes());
  return bytes;
}

/// The segment's output.
at::Tensor output_of(const SegmentTrial& trial, const models::Model& model, const at::Tensor& x) {
  const Autocast autocast(trial.configuration.precision, at::kCPU);
  return model->run(0, x, trial.batch.pass, nullptr, {.backward_follows = trial.backward_follows});
}

/// What a pass needs, forward and back, of a model which may have gradients already.
SegmentNeeds needs_of_pass(const SegmentTrial& trial, const models::Model& model, const Sums& sums,
                           PeakMemory& memory) {
  const int64_t before = memory.current_bytes();
  SegmentNeeds needs;
  trial.calls.calls.clear();
  memory.reset_peak();

  at::Tensor x = trial.input.defined() ? stand_in(trial.input) : trial.batch.input;
  at::Tensor y = output_of(trial, model, x);
  if (!trial.holds_input) x.reset();
  if (!trial.is_last) check_output_shape(trial.segment, y, model->stage(), trial.batch.pass.rows);
  needs.output = at::empty(y.sizes(), y.options().device(at::kMeta)).requires_grad_(y.requires_grad());
  if (trial.is_last) {
    const at::Tensor output = std::exchange(y, loss_of(trial.task, y, trial.batch, trial.grid) / 1.0);  // as in a step
    needs.tally = std::ssize(trial.task.tally(output.detach(), trial.batch));
  }
  needs.forward = memory.peak_bytes() - before;
  needs.forward_calls = trial.calls.calls.size();
  // Multiplying by a number keeps nothing, and gives the segment a gradient of full size.
  if (!trial.is_last) y = (y * 1).sum();
  const int64_t waiting = memory.current_bytes();
  memory.reset_peak();
  PostponedGradients postponed;
  const auto backward = [&] {
    if (y.requires_grad()) y.backward();
  };
  trial.splits_backward ? postponed.collect(backward) : backward();
  needs.backward = memory.peak_bytes() - waiting;
  model->release_weights();
  y.reset();
  x.reset();
  const auto without_gradients = [&] {
    const int64_t gradients = bytes_of_gradients(model, sums);  // which finishes sums
    return memory.current_bytes() - gradients;
  };
  const int64_t left = without_gradients();
  memory.reset_peak();
  const int64_t before_weights = memory.current_bytes();
  postponed.compute();
  needs.weight_gradients = memory.peak_bytes() - before_weights;
  // What is in memory now besides the gradients is kept for all segments of the micro-batch: it was derived from its rows.
  const int64_t of_rows = without_gradients();
  needs.kept = waiting - of_rows;
  needs.retained = left - of_rows;
  for (const std::string& part : trial.summed_earlier)
    for (const at::Tensor& weight : model->named_children()[part]->parameters())
      if (weight.grad().defined()) needs.retained += static_cast<int64_t>(weight.grad().nbytes());
  needs.calls = std::exchange(trial.calls.calls, {});
  return needs;
}

/// Passes of a segment, forward and back, timed on all workers together.
class TimedPasses {
 public:
  TimedPasses(const SegmentTrial& trial, bool adds_up, const Communicator& workers)
      : trial_(trial), adds_up_(adds_up), workers_(workers), model_(made(trial)) {
    const at::NoGradGuard no_gradient;  // zeros might be faster than other numbers
    for (const nn::Parameter& piece : pieces_of(model_))
      if (!piece.is_buffer) piece.tensor.normal_(0, 0.02);
    given_ = trial.input.defined() ? at::randn(trial.input.sizes(), trial.input.options().device(at::kCPU))
                                   : trial.batch.input;
  }

  void run() {
    at::Tensor x = input();
    workers_.barrier();
    measure::Stopwatch watch;
    at::Tensor y = output_of(trial_, model_, x);
    if (trial_.is_last) y = loss_of(trial_.task, y, trial_.batch, trial_.grid) / 1.0;
    const auto forward = watch.lap();
    if (!gradient_.defined()) gradient_ = at::randn(y.sizes(), y.options().requires_grad(false)).div_(1e3);
    others_.fill_(1);
    gradient_ = gradient_.clone();
    watch.lap();
    PostponedGradients postponed;
    const auto back = [&] {
      if (y.requires_grad()) y.backward(gradient_);
    };
    trial_.splits_backward ? postponed.collect(back) : back();
    const auto backward = watch.lap();
    postponed.compute();
    keep({forward, backward, watch.lap()});
    y.reset();
    if (!adds_up_)
      for (const at::Tensor& weight : model_->parameters()) weight.mutable_grad().reset();
  }
  /// Begins anew, with the memory and gradients that there are.
  void forget() {
    for (auto& each : parts_) each.clear();
    waiting_.clear();
    all_ = {};
    spent_ = 0;
  }
  double spent() const { return spent_; }
  TimedSegment result() const {
    double lost = all_.lost();
    workers_.all_reduce(buffer(lost), Reduction::max);
    return {
        {measure::median(parts_[0]), measure::median(parts_[1]), measure::median(parts_[2]), measure::median(waiting_)},
        lost};
  }

 private:
  at::Tensor input() {
    others_.fill_(1);
    if (!trial_.input.defined()) return given_;
    // Made by an operation, so that its gradient is not that of a parameter.
    return given_.clone().requires_grad_(trial_.input.requires_grad()).view(given_.sizes());
  }
  /// The mean over the workers of forward, backward and the weights' gradients, and how long the others wait for the slowest.
  void keep(const std::array<measure::Stopwatch::Lap, 3>& laps) {
    std::vector<double> parts;
    for (const auto& lap : laps) {
      all_ += lap;
      parts.push_back(at::get_num_threads() == 1 ? lap.processor : lap.seconds);
    }
    double slowest = parts[0] + parts[1] + parts[2];
    workers_.all_reduce(buffer(slowest), Reduction::max);
    workers_.all_reduce(buffer(parts));
    double mean = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      parts_[i].push_back(parts[i] / workers_.size());
      mean += parts_[i].back();
    }
    waiting_.push_back(slowest - mean);
    spent_ += mean;
  }

  const SegmentTrial& trial_;
  const bool adds_up_;
  const Communicator& workers_;
  const models::Model model_;
  at::Tensor given_, gradient_;  // the input, and the gradient of the output
  // In a step the other segments run in between, so their memory fills the caches; a segment's input was just written.
  const at::Tensor others_ = at::empty({kCachedBytes / 4}, at::kFloat);
  std::array<std::vector<double>, 3> parts_;
  std::vector<double> waiting_;
  measure::Stopwatch::Lap all_;
  double spent_ = 0;
};

}  // namespace

void PlannedCalls::begin(const Call& call) {
  const bool moves = call.collective || call.name == "exchange" || call.name == "isend";
  if (!moves || call.size == 1) return;
  const auto [first, last] = std::ranges::minmax(call.group->world_ranks);
  const auto sent = static_cast<int>(std::ranges::count_if(call.messages, &Message::is_send));
  std::set<int> hosts;
  for (const int rank : call.group->world_ranks) hosts.insert(host_of_[static_cast<size_t>(rank)]);
  const bool goes_on = call.is_begun && std::ssize(hosts) == call.size;
  calls.push_back({call.collective, call.size, call.bytes(), last - first + 1, call.collective ? 1 : sent, goes_on});
}

SilentRank::SilentRank(const GridSizes& sizes, int rank, int64_t hosts)
    : calls(std::make_shared<PlannedCalls>(hosts_of_ranks(sizes.ranks(), hosts))),
      grid(Communicator(std::make_shared<lab::SilentBackend>(rank, hosts_of_ranks(sizes.ranks(), hosts)), calls),
           sizes.shape()) {}

SegmentNeeds measure(const SegmentTrial& trial) {
  const SkippedProducts skipped;
  PeakMemory memory;
  const models::Model model = made(trial);
  const Sums sums = sums_in_backward_of(model, trial.summed);
  for (const std::string& part : trial.summed_earlier) model->shards().at(part)->leave_gradients();
  SegmentNeeds needs = needs_of_pass(trial, model, sums, memory), again = needs;
  if (parts_of_step(trial.configuration) > 1) {
    for (const std::string& part : trial.summed_earlier)  // which are summed after each micro-batch
      for (const at::Tensor& weight : model->named_children()[part]->parameters()) weight.mutable_grad().reset();
    again = needs_of_pass(trial, model, sums, memory);
  }
  needs.backward_again = again.backward;
  needs.weight_gradients_again = again.weight_gradients;
  trial.calls.calls.clear();
  for (const auto& [part, shards] : model->shards()) {
    needs.ahead += shards->bytes_ahead();
    needs.gathers += shards->gathers();
    shards->take_gradients();
  }
  needs.calls_of_step = std::exchange(trial.calls.calls, {});
  needs.gathers_again = trial.backward_follows ? 0 : needs.gathers;
  return needs;
}

TimedSegment time_segment(const SegmentTrial& trial, bool adds_up, const Communicator& workers, double seconds) {
  TimedPasses passes(trial, adds_up, workers);
  passes.run();  // gets its memory from the system
  passes.forget();
  for (int i = 0; i < kMostPasses && (i == 0 || passes.spent() < seconds); ++i) passes.run();
  return passes.result();
}

}  // namespace adjoin::plan
