#include "adjoin/train/segment_needs.hpp"

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
#include "adjoin/parallel/gradient_shard.hpp"
#include "adjoin/train/autocast.hpp"
#include "adjoin/train/skipped_products.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::train {
namespace {

constexpr int64_t kCachedBytes = int64_t{16} << 20;  // about the cache of a rank
constexpr int kMostPasses = 5;                       // timed at once

/// The output of the segment before, as zeros that an operation makes, so that only autograd keeps them.
at::Tensor stand_in(const at::Tensor& output) {
  const at::Tensor number = at::zeros({1}, output.options().device(at::kCPU)).requires_grad_(output.requires_grad());
  return number.expand(output.sizes()).clone(at::MemoryFormat::Contiguous);
}

models::Model made(const SegmentTrial& trial) {
  const Grid stage = trial.grid.at("pp", trial.grid.coordinate("pp"));
  models::Model model(std::vector<models::Segment>{trial.segment}, stage, tensor_options(trial.configuration),
                      shards_weights(trial.configuration));
  const at::NoGradGuard no_gradient;
  if (model->shards().empty())
    for (const nn::Parameter& parameter : parameters_of(model))
      if (parameter.initial) parameter.tensor.zero_();  // any finite number works
  return model;
}

using GradientShards = std::vector<std::unique_ptr<parallel::GradientShard>>;

GradientShards shards_of(const models::Model& model, const std::set<std::string>& summed) {
  GradientShards shards;
  for (const nn::Parameter& parameter : parameters_of(model))
    if (summed.contains(parameter.name)) shards.push_back(std::make_unique<parallel::GradientShard>(parameter));
  return shards;
}

int64_t bytes_of_gradients(const models::Model& model, const GradientShards& shards) {
  int64_t bytes = 0;
  for (const auto& shard : shards) bytes += shard->bytes();
  for (const auto& [part, of_part] : model->shards()) bytes += of_part->gradient_bytes();
  for (const at::Tensor& weight : model->parameters())
    if (weight.grad().defined()) bytes += static_cast<int64_t>(weight.grad().nbytes());
  return bytes;
}

/// What a pass needs, forward and back, of a model which may have gradients already.
SegmentNeeds needs_of_pass(const SegmentTrial& trial, const models::Model& model, const GradientShards& shards,
                           PeakMemory& memory) {
  const int64_t before = memory.current_bytes();
  SegmentNeeds needs;
  trial.calls.calls.clear();
  memory.reset_peak();

  at::Tensor x = trial.input.defined() ? stand_in(trial.input) : trial.batch.input;
  at::Tensor y = [&] {
    const Autocast autocast(trial.configuration.precision);
    return model->run(0, x, trial.batch.pass, nullptr, trial.backward_follows);
  }();
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
  const int64_t left = memory.current_bytes() - bytes_of_gradients(model, shards);
  memory.reset_peak();
  const int64_t before_weights = memory.current_bytes();
  postponed.compute();
  needs.weight_gradients = memory.peak_bytes() - before_weights;
  // What is in memory now besides the gradients is kept for all segments of the micro-batch: it was derived from its rows.
  const int64_t of_rows = memory.current_bytes() - bytes_of_gradients(model, shards);
  needs.kept = waiting - of_rows;
  needs.retained = left - of_rows;
  for (const std::string& part : trial.summed_earlier)
    for (const at::Tensor& weight : model->named_children()[part]->parameters())
      if (weight.grad().defined()) needs.retained += static_cast<int64_t>(weight.grad().nbytes());
  needs.calls = std::exchange(trial.calls.calls, {});
  return needs;
}

}  // namespace

void PlannedCalls::begin(const Call& call) {
  const bool moves = call.collective || call.name == "exchange" || call.name == "isend";
  if (!moves || call.size == 1) return;
  const auto [first, last] = std::ranges::minmax(call.group->world_ranks);
  const auto sent = static_cast<int>(std::ranges::count_if(call.messages, &Message::is_send));
  calls.push_back({call.collective, call.size, call.bytes(), last - first + 1, call.collective ? 1 : sent});
}

LoneRank::LoneRank(const GridSizes& sizes, int rank)
    : grid(Communicator(std::make_shared<lab::SilentBackend>(rank, static_cast<int>(sizes.ranks())), calls),
           sizes.shape()) {}

SegmentNeeds measure(const SegmentTrial& trial) {
  const SkippedProducts skipped;
  PeakMemory memory;
  const models::Model model = made(trial);
  const GradientShards shards = shards_of(model, trial.summed);
  for (const std::string& part : trial.summed_earlier) model->shards().at(part)->leave_gradients();
  SegmentNeeds needs = needs_of_pass(trial, model, shards, memory);
  needs.backward_again = needs.backward;
  needs.weight_gradients_again = needs.weight_gradients;
  if (trial.configuration.microbatches == 1) return needs;
  for (const std::string& part : trial.summed_earlier)  // which are summed after each micro-batch
    for (const at::Tensor& weight : model->named_children()[part]->parameters()) weight.mutable_grad().reset();
  const SegmentNeeds again = needs_of_pass(trial, model, shards, memory);
  needs.backward_again = again.backward;
  needs.weight_gradients_again = again.weight_gradients;
  return needs;
}

TimedSegment time_segment(const SegmentTrial& trial, bool adds_up, const Communicator& workers, double seconds) {
  const models::Model model = made(trial);
  {
    const at::NoGradGuard no_gradient;  // zeros might be faster than other numbers
    for (const at::Tensor& weight : model->parameters()) weight.normal_(0, 0.02);
  }
  const at::Tensor given = trial.input.defined()
                               ? at::randn(trial.input.sizes(), trial.input.options().device(at::kCPU))
                               : trial.batch.input;
  at::Tensor gradient;  // of the output
  measure::Stopwatch::Lap all;
  std::vector<double> forward, backward, weights, waiting;
  // In a step the other segments run in between, so their memory fills the caches; a segment's input was just written.
  const at::Tensor others = at::empty({kCachedBytes / 4}, at::kFloat);
  const auto pass = [&] {
    others.fill_(1);
    at::Tensor x = given;
    if (trial.input.defined())  // made by an operation, so that its gradient is not that of a parameter
      x = given.clone().requires_grad_(trial.input.requires_grad()).view(given.sizes());
    workers.barrier();
    measure::Stopwatch watch;
    at::Tensor y = [&] {
      const Autocast autocast(trial.configuration.precision);
      return model->run(0, x, trial.batch.pass, nullptr, trial.backward_follows);
    }();
    if (trial.is_last) y = loss_of(trial.task, y, trial.batch, trial.grid) / 1.0;
    const auto forward_lap = watch.lap();
    if (!gradient.defined()) gradient = at::randn(y.sizes(), y.options().requires_grad(false)).div_(1e3);
    others.fill_(1);
    gradient = gradient.clone();
    watch.lap();
    PostponedGradients postponed;
    const auto back = [&] {
      if (y.requires_grad()) y.backward(gradient);
    };
    trial.splits_backward ? postponed.collect(back) : back();
    const auto backward_lap = watch.lap();
    postponed.compute();
    const std::array laps{forward_lap, backward_lap, watch.lap()};
    y.reset();
    if (!adds_up)
      for (const at::Tensor& weight : model->parameters()) weight.mutable_grad().reset();
    std::vector<double> parts;
    for (const auto& lap : laps) {
      all += lap;
      parts.push_back(at::get_num_threads() == 1 ? lap.processor : lap.seconds);
    }
    double slowest = parts[0] + parts[1] + parts[2];
    workers.all_reduce(buffer(slowest), Reduction::max);
    workers.all_reduce(buffer(parts));
    for (double& part : parts) part /= workers.size();
    waiting.push_back(slowest - parts[0] - parts[1] - parts[2]);
    return parts;
  };
  pass();  // the first pass gets its memory from the system
  waiting.clear();
  all = {};
  double spent = 0;
  for (int i = 0; i < kMostPasses && (i == 0 || spent < seconds); ++i) {
    const std::vector<double> parts = pass();
    spent += parts[0] + parts[1] + parts[2];
    forward.push_back(parts[0]);
    backward.push_back(parts[1]);
    weights.push_back(parts[2]);
  }
  double lost = all.lost();
  workers.all_reduce(buffer(lost), Reduction::max);
  return {{measure::median(forward), measure::median(backward), measure::median(weights), measure::median(waiting)},
          lost};
}

}  // namespace adjoin::train
