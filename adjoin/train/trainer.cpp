#include "adjoin/train/trainer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/lab/timeline.hpp"
#include "adjoin/movement/check_gradients.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/movement/rank_device.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/task/same_bits.hpp"
#include "adjoin/train/autocast.hpp"
#include "adjoin/train/backward_slices.hpp"
#include "adjoin/train/expert_counts.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/optimizer.hpp"

namespace adjoin::train {
namespace {

GridShape grid_shape(const Configuration& configuration, const Communicator& world) {
  const GridSizes sizes = grid_sizes(configuration);
  require(sizes.ranks() == world.size(), [&] { return sizes.needs() + ", there are " + std::to_string(world.size()); });
  return sizes.shape();
}

template <class Make>
auto in_order(const Configuration& configuration, const Make& make) {
  const WithOrder with_order(order_of(configuration));
  return make();
}

}  // namespace

std::vector<models::Segment> segments_of(const Configuration& configuration, const Task& task,
                                         const Communicator& world) {
  std::vector<models::Segment> segments = task.segments_for(stage_count(configuration), world);
  if (configuration.recompute == Recompute::segment)
    for (size_t i = 0; i + 1 < segments.size(); ++i)  // the last one's backward comes next
      segments[i].recomputes = true;
  return segments;
}

at::TensorOptions tensor_options(const Configuration& configuration, const Communicator& world) {
  return at::device(device_of(configuration.device, world, configuration.fast))
      .dtype(weight_type(configuration.precision));
}

Trainer::Trainer(const Configuration& configuration, const Task& task, const Communicator& world)
    : configuration_(configuration),
      task_(task),
      grid_(world, grid_shape(configuration, world)),
      lanes_(lanes_of(configuration, grid_)),
      stages_(stages_of(configuration, segments_of(configuration, task, world))),
      tensor_(tensor_options(configuration, world)),
      model_(in_order(configuration,
                      [&] {
                        return model_here(stages_, grid_, tensor_, sharding_of(configuration),
                                          static_cast<uint64_t>(configuration.seed));
                      })),
      parameters_(in_order(configuration,
                           [&] { return parameters_of(stages_, model_, grid_, tensor_, sharding_of(configuration)); })),
      checks_gradients_(configuration.check_gradients && !configuration.has_program() && !lanes_) {
  if (lanes_) model_->sum_lanes(lanes_->held());
  for (const models::Segment& segment : stages_.segments)
    slice_names_.push_back({"forward " + segment.name, "backward " + segment.name});
}

void Trainer::initialize() {
  if (configuration_.has_program()) return;  // its file has the weights
  nn::initialize(parameters_, static_cast<uint64_t>(configuration_.seed));
  if (shards_weights(configuration_)) return;  // those of a plain module are already the same as one rank's
  for (const nn::Parameter& parameter : parameters_)
    if (!parameter.initial && parameter.layout.grid().cell_of(grid_.world().rank()))
      parallel::broadcast_piece(parameter);  // for a plain module, whose values may come from elsewhere than the seed
}

parallel::Optimizer& Trainer::optimizer() {
  if (!optimizer_)
    optimizer_.emplace(make_optimizer(configuration_, stages_.segments, parameters_, grid_.world(),
                                      lanes_ ? std::optional(lanes_->held()) : std::nullopt));
  return *optimizer_;
}

namespace {

/// Floating-point operations of this worker's rows of a micro-batch, through the whole model: one multiplication and one
/// addition for each row and each weight that it is multiplied by, the same for each pair of tokens and each feature in the two
/// products of attention, and twice as much in backward: Kaplan et al., "Scaling laws for neural language models", arXiv
/// 2001.08361, section 2.1. Recomputation does not count, as in Chowdhery et al., "PaLM", arXiv 2204.02311, appendix B. Unlike
/// there, the hidden half of the pairs in causal attention does not count.
double flops_of(const MicroBatch& batch, std::span<const models::Segment> segments) {
  double of_row = 0, of_pair = 0;
  for (const models::Segment& segment : segments) {
    of_row += segment.cost;
    of_pair += segment.attention_cost;
  }
  const LocalTokenRows& rows = batch.pass.rows;
  const auto here = static_cast<double>(rows ? rows.size() : batch.input.size(0));
  double pairs = 0;
  if (rows && rows.all().size() > 0) {
    for (const int64_t length : rows.all().lengths()) pairs += static_cast<double>(length * length);
    pairs *= here / static_cast<double>(rows.all().size());
  }
  return 3 * (of_row * here + of_pair * pairs);
}

}  // namespace

/// What a worker sums over micro-batches, and then over workers.
struct Trainer::Sums {
  double loss = 0, tokens = 0, flops = 0;
  std::vector<double> tally{};
  ExpertCounts experts;
  bool interrupted = false;  // any rank may have noted it

  explicit Sums(const std::vector<models::Segment>& segments) : experts(segments) {}
  void add(double loss_of_batch, const MicroBatch& batch, double flops_of_batch, const std::vector<double>& more) {
    loss += loss_of_batch;
    tokens += static_cast<double>(batch.tokens);
    flops += flops_of_batch;
    tally.resize(more.size());
    for (size_t i = 0; i < more.size(); ++i) tally[i] += more[i];
  }
  /// Of the ranks that know the same, `contributes` must be true on exactly one.
  void add_up(const Communicator& world, bool contributes, size_t tally_size) {
    if (!contributes) loss = tokens = flops = 0, tally.clear();
    tally.resize(tally_size);
    std::vector<double> all{loss, tokens, flops};
    for (const auto* numbers : {&tally, &experts.numbers()}) all.insert(all.end(), numbers->begin(), numbers->end());
    all.push_back(train::interrupted() ? 1 : 0);
    world.all_reduce(buffer(all));
    loss = all[0], tokens = all[1], flops = all[2], interrupted = all.back() > 0;
    const auto of_experts = all.begin() + 3 + std::ssize(tally);
    tally.assign(all.begin() + 3, of_experts);
    experts.numbers().assign(of_experts, all.end() - 1);
  }
};

/// Runs this rank's stages for the micro-batches of one schedule.
class Trainer::StageRunner {
 public:
  /// Losses are divided by `denominator`.
  StageRunner(Trainer& trainer, const std::function<OrderedBatch(int)>& make, Sums& sums, double denominator)
      : trainer_(trainer),
        make_(make),
        uses_(trainer.stages_.stages_at(trainer.grid_.coordinate("pp")).size()),
        sums_(sums),
        denominator_(denominator),
        checks_(trainer.checks_gradients_ && at::GradMode::is_enabled()) {
    if (trainer.notes_backward_)
      for (auto& of_half : backward_) of_half = std::make_shared<BackwardSlices>();
    if (checks_) notes_.emplace();
  }

  parallel::Bundle forward(int stage, int number, const parallel::Bundle& input) {
    const auto& [batch, order] = batch_of(number);
    const WithOrder with_order(order);
    const Configuration& c = trainer_.configuration_;
    const models::Model& model = trainer_.model_;
    const Autocast autocast(c.precision, trainer_.tensor_.device());
    const Stages& stages = trainer_.stages_;
    const std::span segments = stages.segments_of(stage);
    const size_t first = stages.place_of(stage), first_of_all = stages.first_of(stage);
    const bool backward_follows = shards_weights(c) && stages.backward_follows(stage, number);
    parallel::Bundle x = input.size() > 0 ? input : parallel::Bundle(batch.input);
    if (checks_) known_ = known_inputs(batch, input);
    for (size_t i = 0; i < segments.size(); ++i) {
      const SegmentNames& names = trainer_.slice_names_[first_of_all + i];
      const lab::TimeSlice slice(names.forward);
      const nn::ExpertLoads loads;
      const bool is_last = i + 1 == segments.size();
      x = model->run(first + i, x, batch.input, batch.pass, {i == 0, is_last, backward_follows && is_last});
      sums_.experts.add(first_of_all + i, loads);
      if (const auto& slices = backward_[static_cast<size_t>(number % 2)])
        slices->note(x.items().front().tensor, names.backward);
    }
    if (stage + 1 == stages.count() || segments.back().with_input) return x;
    const at::Tensor& output = x;
    check_output_shape(segments.back(), output, model->stage(), batch.pass.rows);
    if (checks_) check_gradients_of_stage(output, known_parameters(), known_, model->stage());
    return output.to(weight_type(c.precision));  // as the next stage expects it
  }
  at::Tensor loss(int number, const at::Tensor& output) {
    const auto& [batch, order] = batch_of(number);
    const WithOrder with_order(order);
    const Task& task = trainer_.task_;
    const at::Tensor loss = loss_of(task, output, batch, trainer_.grid_), mean = loss / denominator_;
    if (checks_)
      check_gradients(mean, known_parameters(), known_, trainer_.model_->stage(), {{"tp", Kind::replicated}});
    // Exact losses are divided when all are added up, so that their sum has no order.
    sums_.add((order ? loss : mean).item<double>(), batch, flops_of(batch, trainer_.stages_.segments),
              task.tally(output.detach(), batch));
    return mean;
  }
  std::vector<int64_t> output_shape(int stage, int number) {
    const models::Segment& last = trainer_.stages_.segments_of(stage).back();
    const auto& [batch, order] = batch_of(number);
    const WithOrder with_order(order);
    return last.output_shape(trainer_.model_->stage(), batch.pass.rows);
  }
  void note(const pipeline::Action& action, double seconds) {
    if (action.kind != pipeline::Kind::forward)
      trainer_.model_->release_weights();
    else if (++batches_.at(action.micro_batch).uses == uses_)
      batches_.erase(action.micro_batch);
    if (trainer_.observer_) trainer_.observer_(action, seconds);
  }

 private:
  /// A micro-batch is made when the first stage of this rank needs it, and dropped when all its stages have used it.
  const OrderedBatch& batch_of(int number) {
    const auto [found, is_new] = batches_.try_emplace(number);
    if (is_new) {
      const lab::TimeSlice slice("data", number);
      found->second.batch = make_(number);
    }
    return found->second.batch;
  }
  std::vector<KnownTensor> known_parameters() const { return nn::known_tensors(parameters_of(trainer_.model_)); }
  std::vector<KnownTensor> known_inputs(const MicroBatch& batch, const parallel::Bundle& input) const {
    // Inputs from other stages may be anything; the micro-batch itself is equal along tp and different along all other axes.
    if (input.size() > 0) return {};
    std::map<std::string, Kind> kinds;
    for (const GridShape::Axis& axis : trainer_.model_->stage().shape().axes())
      kinds.emplace(axis.name, axis.name == "tp" ? Kind::replicated : Kind::split);
    return {{"the input", batch.input, kinds}};
  }

  Trainer& trainer_;
  const std::function<OrderedBatch(int)>& make_;
  struct UsedBatch {
    OrderedBatch batch;
    size_t uses = 0;
  };
  std::map<int, UsedBatch> batches_;
  const size_t uses_;  // of each micro-batch, by the stages of this rank
  Sums& sums_;
  const double denominator_;
  const bool checks_;
  std::array<std::shared_ptr<BackwardSlices>, 2> backward_;  // of micro-batches that may be two halves
  std::optional<ForwardRecord> notes_;
  std::vector<KnownTensor> known_;  // for a stage that is checked: its inputs
};

void Trainer::run(const pipeline::Schedule& schedule, const std::function<OrderedBatch(int)>& make, Sums& sums,
                  double denominator, double loss_scale) {
  using Runner = StageRunner;
  Runner runner(*this, make, sums, denominator);
  const Communicator& tp = grid_.axis("tp");
  std::function<parallel::BundleSpec(int, int)> output_shape;
  if (!stages_.segments.front().with_input) output_shape = std::bind_front(&Runner::output_shape, &runner);
  const bool has_turns = configuration_.halves && at::GradMode::is_enabled() && !checks_gradients_;
  parallel::run_pipeline(schedule, grid_.axis("pp"),
                         {.forward = std::bind_front(&Runner::forward, &runner),
                          .loss = std::bind_front(&Runner::loss, &runner),
                          .output_shape = output_shape,
                          .output = tensor_,
                          .loss_scale = loss_scale,
                          .observer = std::bind_front(&Runner::note, &runner),
                          .turns = has_turns && tp.backend()->spans_hosts() ? std::optional(tp) : std::nullopt});
}

void Trainer::add_up(Sums& sums, bool training) {
  const auto [size, is_new] = tally_sizes_.try_emplace(training, sums.tally.size());
  if (is_new && configuration_.pp > 1)
    size->second = static_cast<size_t>(largest_of_all(static_cast<int64_t>(size->second), grid_.world()));
  const bool has_last_stage = stages_.pp_of(stages_.count() - 1) == grid_.coordinate("pp");
  sums.add_up(grid_.world(), has_last_stage && grid_.coordinate("tp") == 0, size->second);
}

StepResult Trainer::step(std::span<const int64_t> samples, int64_t step, double learning_rate, double loss_scale) {
  optimizer();  // it may sum gradients during backward
  if (lanes_) lanes_->held().gradients->begin_step();
  const double denominator = task_.loss_denominator(data::Part::train, samples);
  const Step context{.seed = static_cast<uint64_t>(configuration_.seed),
                     .number = step,
                     .training = true,
                     .loss_share = denominator > 0 ? loss_scale / denominator : 0};
  const auto make = [&](int i) {
    return batch_of_step(configuration_, task_, samples, i, context, tensor_, grid_, lanes_);
  };
  Sums sums(stages_.segments);
  run(stages_.schedule, make, sums, denominator, loss_scale);
  checks_gradients_ = false;
  for (const auto& [part, shards] : model_->shards()) shards->take_gradients();
  add_up(sums, /*training=*/true);  // before the new weights travel
  if (lanes_ && denominator > 0) sums.loss /= denominator;
  const parallel::Update update = [&] {
    const lab::TimeSlice slice("optimizer");
    return optimizer().step(learning_rate, loss_scale);
  }();
  StepResult result{.loss = sums.loss,
                    .measures = task_.measures(sums.loss, sums.tally, denominator),
                    .gradient_norm = update.norm,
                    .tokens = static_cast<int64_t>(sums.tokens),
                    .flops = sums.flops,
                    .interrupted = sums.interrupted,
                    .skipped = update.skipped};
  for (const Measure& measure : sums.experts.measures(loss_scale)) result.measures.push_back(measure);
  return result;
}

at::Tensor Trainer::output(const MicroBatch& batch) const {
  const at::NoGradGuard no_gradient;
  const Autocast autocast(configuration_.precision, tensor_.device());
  const WithOrder with_order(order_of(configuration_));
  return model_->forward(batch.input, batch.pass);
}

Evaluation Trainer::evaluate(data::Part part, int64_t batch_samples, const EvaluationProgress& progress) {
  std::vector<int64_t> all(static_cast<size_t>(task_.size(part)));
  std::iota(all.begin(), all.end(), int64_t{0});
  return evaluate(part, std::move(all), batch_samples, progress);
}

Evaluation Trainer::evaluate(data::Part part, std::vector<int64_t> order, int64_t batch_samples,
                             const EvaluationProgress& progress) {
  const lab::TimeSlice slice("evaluation");
  require(batch_samples >= 0, "evaluate: expected batches of at least 1 sample");
  if (batch_samples == 0) batch_samples = std::max<int64_t>(1, configuration_.batch / configuration_.microbatches);
  // Samples of about equal length share a batch, so that ranks have the same amount of work. The longest come first: the memory
  // that they used is then free for all others.
  const std::vector<int64_t> lengths = task_.lengths(part);
  if (!lengths.empty())
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
    });
  const auto at_once = static_cast<size_t>(batch_samples), all = (order.size() + at_once - 1) / at_once;
  // Batches that fill a pipeline follow each other without communication in between.
  const size_t in_a_row = configuration_.pp == 1 ? 1 : static_cast<size_t>(4 * configuration_.pp);
  const auto samples_of = [&](size_t batch) {
    return std::span(order).subspan(batch * at_once, std::min(at_once, order.size() - batch * at_once));
  };
  Sums sums(stages_.segments);
  const auto of_samples = order_of(configuration_);
  const at::NoGradGuard no_gradient;
  for (size_t begin = 0; begin < all; begin += in_a_row) {
    if (largest_of_all(interrupted(), grid_.world()) != 0) return {.interrupted = true};
    const size_t count = std::min(in_a_row, all - begin);
    const auto make = [&](int i) {
      const WithOrder with_order(of_samples);
      const std::span now = samples_of(begin + static_cast<size_t>(i));
      return OrderedBatch{
          micro_batch_of(task_, part, now, part_of_batch(task_, std::ssize(now), grid_), {}, tensor_, grid_),
          of_samples};
    };
    run(pipeline::forward_only(stages_.schedule, static_cast<int>(count)), make, sums, 1);
    for (size_t i = begin; progress && i < begin + count; ++i)
      progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(all), std::ssize(samples_of(i)));
  }
  add_up(sums, /*training=*/false);
  const double denominator = task_.loss_denominator(part, order);
  const double loss = denominator > 0 ? sums.loss / denominator : 0;
  return {.loss = loss,
          .measures = task_.measures(loss, sums.tally, denominator),
          .tally = sums.tally,
          .expert_rows = sums.experts.rows()};
}

}  // namespace adjoin::train
