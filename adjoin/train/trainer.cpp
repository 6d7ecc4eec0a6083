#include "adjoin/train/trainer.hpp"

#include <ATen/ops/full_like.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/train/autocast.hpp"
#include "adjoin/train/grid_sizes.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/optimizer.hpp"

namespace adjoin::train {
namespace {

GridShape grid_shape(const Configuration& configuration, const Communicator& world) {
  const GridSizes sizes = grid_sizes(configuration);
  require(sizes.ranks() == world.size(), [&] { return sizes.needs() + ", there are " + std::to_string(world.size()); });
  return sizes.shape();
}

/// Whether any worker was interrupted, which all act on together.
bool any_interrupted(const Communicator& world) {
  std::array<int32_t, 1> flag{interrupted()};
  world.all_reduce(buffer(flag), Reduction::max);
  return flag[0] != 0;
}

}  // namespace

std::vector<models::Segment> segments_of(const Configuration& configuration, const Task& task) {
  std::vector<models::Segment> segments = task.segments();
  if (configuration.recompute == "segment")
    for (size_t i = 0; i + 1 < segments.size(); ++i)  // the last one's backward comes next
      segments[i].recomputes = true;
  return segments;
}

at::TensorOptions tensor_options(const Configuration& configuration) {
  return weight_type(configuration.precision);
}

Trainer::Trainer(const Configuration& configuration, const Task& task, const Communicator& world)
    : configuration_(configuration),
      task_(task),
      grid_(world, grid_shape(configuration, world)),
      model_(segments_of(configuration, task), grid_.at("pp", grid_.coordinate("pp")), tensor_options(configuration)) {}

void Trainer::initialize() {
  nn::initialize(*model_, static_cast<uint64_t>(configuration_.seed));
  const at::NoGradGuard no_gradient;
  for (const nn::Parameter& parameter : parameters())
    if (!parameter.initial) {  // of a plain module, which each rank has drawn itself
      const at::Tensor values = parameter.tensor.contiguous();
      grid_.world().broadcast(buffer(values), 0);
      parameter.tensor.copy_(values);
    }
}

std::vector<nn::Parameter> Trainer::parameters() const {
  return parameters_of(model_);
}

parallel::Optimizer& Trainer::optimizer() {
  if (!optimizer_) optimizer_.emplace(make_optimizer(configuration_, parameters()));
  return *optimizer_;
}

data::BatchPart Trainer::part_of(std::span<const int64_t> samples) const {
  const Communicator& dp = grid_.axis("dp");
  return data::part_of(std::ssize(samples), dp.rank(), dp.size());
}

MicroBatch Trainer::micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                const Step& step) const {
  return context_parallel_part(task_.micro_batch(part, samples, mine, step), task_, grid_.axis("cp"));
}

at::Tensor Trainer::forward(const MicroBatch& batch) const {
  const Autocast autocast(configuration_.precision);
  return model_->forward(batch.input, batch.pass);
}

/// What a worker adds up over micro-batches, and then with the others.
class Trainer::Sums {
 public:
  void add(double loss, const MicroBatch& batch, const std::vector<double>& tally) {
    loss_ += loss;
    tokens_ += static_cast<double>(batch.tokens);
    tally_.resize(tally.size());
    for (size_t i = 0; i < tally.size(); ++i) tally_[i] += tally[i];
  }
  /// Any rank may have noted an interrupt. The ranks of tp know the same of the rest; rank 0 of them speaks.
  void add_up(const Grid& grid) {
    std::vector<double> all{loss_, tokens_};
    all.insert(all.end(), tally_.begin(), tally_.end());
    if (grid.coordinate("tp") != 0) std::fill(all.begin(), all.end(), 0);
    all.push_back(train::interrupted() ? 1 : 0);
    grid.world().all_reduce(buffer(all));
    loss_ = all[0];
    tokens_ = all[1];
    tally_.assign(all.begin() + 2, all.end() - 1);
    interrupted_ = all.back() > 0;
  }
  double loss() const { return loss_; }
  int64_t tokens() const { return static_cast<int64_t>(tokens_); }
  const std::vector<double>& tally() const { return tally_; }
  bool interrupted() const { return interrupted_; }

 private:
  double loss_ = 0, tokens_ = 0;
  std::vector<double> tally_;
  bool interrupted_ = false;
};

StepResult Trainer::step(std::span<const int64_t> samples, int64_t step, double learning_rate, double loss_scale) {
  const auto microbatches = static_cast<int>(configuration_.microbatches);
  const data::BatchPart mine = part_of(samples);
  const double denominator = task_.loss_denominator(data::Part::train, samples);
  Sums sums;
  for (int i = 0; i < microbatches; ++i) {
    const MicroBatch batch =
        micro_batch(data::Part::train, samples, data::part_of(mine, i, microbatches),
                    {.seed = static_cast<uint64_t>(configuration_.seed), .number = step, .training = true});
    const at::Tensor output = forward(batch);
    const at::Tensor loss = task_.loss(output, batch, grid_) / denominator;
    loss.backward(at::full_like(loss, loss_scale));
    sums.add(loss.item<double>(), batch, task_.tally(output.detach(), batch));
  }
  const parallel::Update update = optimizer().step(learning_rate, loss_scale);
  sums.add_up(grid_);
  return {.loss = sums.loss(),
          .measures = task_.measures(sums.loss(), sums.tally(), denominator),
          .gradient_norm = update.norm,
          .tokens = sums.tokens(),
          .interrupted = sums.interrupted(),
          .skipped = update.skipped};
}

at::Tensor Trainer::output(const MicroBatch& batch) const {
  const at::NoGradGuard no_gradient;
  return forward(batch);
}

Evaluation Trainer::evaluate(data::Part part, int64_t batch_samples, const EvaluationProgress& progress) {
  std::vector<int64_t> all(static_cast<size_t>(task_.size(part)));
  std::iota(all.begin(), all.end(), int64_t{0});
  return evaluate(part, std::move(all), batch_samples, progress);
}

Evaluation Trainer::evaluate(data::Part part, std::vector<int64_t> order, int64_t batch_samples,
                             const EvaluationProgress& progress) {
  require(batch_samples >= 0, "evaluate: expected batches of at least 1 sample");
  if (batch_samples == 0) batch_samples = std::max<int64_t>(1, configuration_.batch / configuration_.microbatches);
  // Samples of about equal length share a batch, so that ranks have equally much to do; the longest first, for what they
  // needed is free then for all others.
  const std::vector<int64_t> lengths = task_.lengths(part);
  if (!lengths.empty())
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
    });
  const auto at_once = static_cast<size_t>(batch_samples);
  Sums sums;
  for (size_t begin = 0; begin < order.size(); begin += at_once) {
    if (any_interrupted(grid_.world())) return {.interrupted = true};
    const at::NoGradGuard no_gradient;
    const auto samples = std::span(order).subspan(begin, std::min(at_once, order.size() - begin));
    const MicroBatch batch = micro_batch(part, samples, part_of(samples), {});
    const at::Tensor result = output(batch);
    sums.add(task_.loss(result, batch, grid_).item<double>(), batch, task_.tally(result, batch));
    if (progress)
      progress(static_cast<int64_t>(begin / at_once) + 1, static_cast<int64_t>((order.size() - 1) / at_once) + 1,
               std::ssize(samples));
  }
  sums.add_up(grid_);
  const double denominator = task_.loss_denominator(part, order);
  const double loss = denominator > 0 ? sums.loss() / denominator : 0;
  return {.loss = loss, .measures = task_.measures(loss, sums.tally(), denominator), .tally = sums.tally()};
}

}  // namespace adjoin::train
