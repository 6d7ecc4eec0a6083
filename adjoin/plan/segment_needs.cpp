#include "adjoin/plan/segment_needs.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
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

/// Each tensor as `f` makes it.
template <class F>
parallel::Bundle each(const parallel::Bundle& bundle, const F& f) {
  std::vector<parallel::Bundle::Item> items;
  for (const auto& [name, tensor] : bundle.items()) items.push_back({name, f(tensor)});
  return items;
}

/// The output of the segment before, as zeros that an operation makes, so that only autograd keeps them.
parallel::Bundle stand_in(const parallel::Bundle& output) {
  return each(output, [](const at::Tensor& x) {
    if (!x.is_meta()) return x.clone();
    const at::Tensor number = at::zeros({1}, x.options().device(at::kCPU)).requires_grad_(x.requires_grad());
    return number.expand(x.sizes()).clone(at::MemoryFormat::Contiguous);
  });
}

/// As SegmentNeeds::output.
parallel::Bundle without_memory(const parallel::Bundle& output) {
  return each(output, [](const at::Tensor& x) {
    return x.is_floating_point() ? at::empty(x.sizes(), x.options().device(at::kMeta)).requires_grad_(x.requires_grad())
                                 : x.detach().clone();
  });
}

/// Those from which backward begins.
std::vector<at::Tensor> with_gradients(const parallel::Bundle& output) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : output.items())
    if (tensor.requires_grad()) tensors.push_back(tensor);
  return tensors;
}

std::vector<nn::Parameter> pieces_of(const models::Model& model) {
  std::vector<nn::Parameter> all;
  for (const auto& part : model->named_children())
    std::ranges::move(model->pieces(part.key()), std::back_inserter(all));
  return all;
}

models::Model made(const SegmentTrial& trial) {
  const WithOrder with_order(trial.order);
  const Grid stage = trial.grid.at("pp", trial.grid.coordinate("pp"));
  models::Model model(std::vector<models::Segment>{trial.segment}, stage, weight_type(trial.configuration.precision),
                      sharding_of(trial.configuration));
  const at::NoGradGuard no_gradient;
  for (const nn::Parameter& parameter : pieces_of(model))
    if (parameter.initial) parameter.tensor.zero_();  // any finite number works
  return model;
}

using Sums = std::vector<std::unique_ptr<parallel::BucketSum>>;

Sums sums_in_backward_of(const SegmentTrial& trial, const models::Model& model, const std::optional<HeldLanes>& lanes) {
  using parallel::BucketSum;
  Sums sums;
  for (const models::ModuleRecipe& part : trial.segment.parts)
    for (const nn::Parameter& parameter : model->pieces(part.name))
      if (trial.backward.summed.contains(part.beginning() + "." + parameter.name))
        sums.push_back(std::make_unique<BucketSum>(std::vector{parameter},
                                                   parallel::Bucket({parallel::reals_of(parameter)}, {0}),
                                                   BucketSum::When::each_time, lanes));
  return sums;
}

/// The trial's order as that of a micro-batch with this number, which adds to these gradients.
std::shared_ptr<const FixedOrder> order_of(const SegmentTrial& trial, std::shared_ptr<LaneGradients> gradients,
                                           int64_t number) {
  if (!trial.order) return nullptr;
  const auto order = std::make_shared<FixedOrder>(*trial.order);
  order->gradients = std::move(gradients);
  order->micro_batch = number;
  return order;
}

int64_t bytes_of_gradients(const models::Model& model, const Sums& sums, const FixedOrder* order) {
  int64_t bytes = order ? order->gradients->bytes() : 0;
  for (const auto& sum : sums) bytes += sum->bytes();
  for (const auto& [part, of_part] : model->shards()) bytes += of_part->gradient_bytes();
  for (const at::Tensor& weight : model->parameters())
    if (weight.grad().defined()) bytes += static_cast<int64_t>(weight.grad().nbytes());
  return bytes;
}

/// The segment's output.
parallel::Bundle output_of(const SegmentTrial& trial, const models::Model& model, const parallel::Bundle& x) {
  const Autocast autocast(trial.configuration.precision, at::kCPU);
  return model->run(0, x, trial.batch.input, trial.batch.pass, {.backward_follows = trial.backward.follows});
}

parallel::Bundle input_of(const SegmentTrial& trial) {
  return trial.input.size() > 0 ? stand_in(trial.input) : parallel::Bundle(trial.batch.input);
}

/// What a pass needs, forward and back, of a model which may have gradients already.
SegmentNeeds needs_of_pass(const SegmentTrial& trial, const models::Model& model, const Sums& sums, PeakMemory& memory,
                           const std::shared_ptr<const FixedOrder>& order) {
  const WithOrder with_order(order);
  const int64_t before = memory.current_bytes();
  SegmentNeeds needs;
  trial.calls.calls.clear();
  memory.reset_peak();

  parallel::Bundle x = input_of(trial), output = output_of(trial, model, x);
  if (!trial.place.holds_input) x = {};
  if (!trial.place.is_last && trial.segment.output_shape)
    check_output_shape(trial.segment, output, model->stage(), trial.batch.pass.rows);
  needs.output = without_memory(output);
  at::Tensor y;
  if (trial.place.is_last) {
    y = loss_of(trial.task, output, trial.batch, trial.grid) / 1.0;  // as in a step
    needs.tally = std::ssize(trial.task.tally(static_cast<const at::Tensor&>(output).detach(), trial.batch));
    output = {};
  }
  needs.forward = memory.peak_bytes() - before;
  needs.forward_calls = trial.calls.calls.size();
  // Multiplying by a number keeps nothing, and gives the segment a gradient of full size.
  for (const at::Tensor& given : with_gradients(output)) y = y.defined() ? y + (given * 1).sum() : (given * 1).sum();
  output = {};
  const int64_t waiting = memory.current_bytes();
  memory.reset_peak();
  PostponedGradients postponed;
  const auto backward = [&] {
    if (y.defined() && y.requires_grad()) y.backward();
  };
  trial.backward.splits ? postponed.collect(backward) : backward();
  needs.backward = memory.peak_bytes() - waiting;
  model->release_weights();
  y.reset();
  x = {};
  const auto without_gradients = [&] {
    const int64_t gradients = bytes_of_gradients(model, sums, order.get());  // which finishes sums
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
  for (const std::string& part : trial.backward.summed_earlier)
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
    given_ = trial.input.size() == 0 ? parallel::Bundle(trial.batch.input) : each(trial.input, [](const at::Tensor& x) {
      return x.is_meta() ? at::randn(x.sizes(), x.options().device(at::kCPU)).requires_grad_(x.requires_grad()) : x;
    });
  }

  void run() {
    gradients_of_lanes_->begin_step();
    const WithOrder with_order(order_of(trial_, gradients_of_lanes_, 0));
    const parallel::Bundle x = input();
    workers_.barrier();
    measure::Stopwatch watch;
    parallel::Bundle y = output_of(trial_, model_, x);
    if (trial_.place.is_last) y = loss_of(trial_.task, y, trial_.batch, trial_.grid) / 1.0;
    const auto forward = watch.lap();
    std::vector<at::Tensor> from = with_gradients(y);
    for (size_t i = gradients_.size(); i < from.size(); ++i)
      gradients_.push_back(at::randn(from[i].sizes(), from[i].options().requires_grad(false)).div_(1e3));
    others_.fill_(1);
    for (at::Tensor& gradient : gradients_) gradient = gradient.clone();
    watch.lap();
    PostponedGradients postponed;
    const auto back = [&] {
      if (!from.empty()) torch::autograd::backward(from, gradients_);
    };
    trial_.backward.splits ? postponed.collect(back) : back();
    const auto backward = watch.lap();
    postponed.compute();
    keep({forward, backward, watch.lap()});
    from.clear();
    y = {};
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
  parallel::Bundle input() {
    others_.fill_(1);
    if (trial_.input.size() == 0) return given_;
    // Made by an operation, so that its gradient is not that of a parameter.
    return each(given_, [](const at::Tensor& x) {
      return x.detach().clone().requires_grad_(x.requires_grad()).view(x.sizes());
    });
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
  const std::shared_ptr<LaneGradients> gradients_of_lanes_ = std::make_shared<LaneGradients>();
  parallel::Bundle given_;             // the input
  std::vector<at::Tensor> gradients_;  // of the output
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
  const std::lock_guard lock(mutex_);
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
  std::optional<HeldLanes> lanes;
  if (trial.lanes) lanes = *trial.lanes;
  if (lanes) lanes->gradients = std::make_shared<LaneGradients>();
  const auto order = [&](int64_t number) { return order_of(trial, lanes ? lanes->gradients : nullptr, number); };
  const Sums sums = sums_in_backward_of(trial, model, lanes);
  if (lanes) model->sum_lanes(*lanes);
  for (const std::string& part : trial.backward.summed_earlier) model->shards().at(part)->leave_gradients();
  SegmentNeeds needs = needs_of_pass(trial, model, sums, memory, order(0)), again = needs;
  if (parts_of_step(trial.configuration) > 1) {
    for (const std::string& part : trial.backward.summed_earlier)  // which are summed after each micro-batch
      for (const at::Tensor& weight : model->named_children()[part]->parameters()) weight.mutable_grad().reset();
    again = needs_of_pass(trial, model, sums, memory, order(1));
  }
  needs.backward_again = again.backward;
  needs.weight_gradients_again = again.weight_gradients;
  trial.calls.calls.clear();
  for (const auto& [part, shards] : model->shards()) {
    needs.ahead += shards->bytes_ahead(product_type(trial.configuration.precision));
    needs.gathers += shards->gathers();
    if (lanes) shards->leave_gradients();  // which the last backward sums
    shards->take_gradients();
  }
  needs.calls_of_step = std::exchange(trial.calls.calls, {});
  needs.gathers_again = trial.backward.follows ? 0 : needs.gathers;
  return needs;
}

parallel::Bundle output_of(const SegmentTrial& trial) {
  const SkippedProducts skipped;
  parallel::Bundle output = without_memory(output_of(trial, made(trial), input_of(trial)));
  trial.calls.calls.clear();
  return output;
}

TimedSegment time_segment(const SegmentTrial& trial, bool adds_up, const Communicator& workers, double seconds) {
  TimedPasses passes(trial, adds_up, workers);
  passes.run();  // gets its memory from the system
  passes.forget();
  for (int i = 0; i < kMostPasses && (i == 0 || passes.spent() < seconds); ++i) passes.run();
  return passes.result();
}

}  // namespace adjoin::plan
