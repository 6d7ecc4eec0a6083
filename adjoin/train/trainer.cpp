#include "adjoin/train/trainer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/lab/timeline.hpp"
#include "adjoin/movement/check_gradients.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/train/autocast.hpp"
#include "adjoin/train/backward_slices.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/optimizer.hpp"

namespace adjoin::train {
namespace {

GridShape grid_shape(const Configuration& configuration, const Communicator& world) {
  const GridSizes sizes = grid_sizes(configuration);
  require(sizes.ranks() == world.size(), [&] { return sizes.needs() + ", there are " + std::to_string(world.size()); });
  return sizes.shape();
}

/// Whether any worker was interrupted; all act on it together.
bool any_interrupted(const Communicator& world) {
  std::array<int32_t, 1> flag{interrupted()};
  world.all_reduce(buffer(flag), Reduction::max);
  return flag[0] != 0;
}

}  // namespace

std::vector<models::Segment> segments_of(const Configuration& configuration, const Task& task) {
  std::vector<models::Segment> segments = task.segments();
  if (configuration.recompute == Recompute::segment)
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
      segments_(segments_of(configuration, task)),
      stages_(stages_of(configuration, segments_)),
      model_(segments_here(stages_, segments_, grid_), grid_.at("pp", grid_.coordinate("pp")),
             tensor_options(configuration), shards_weights(configuration), static_cast<uint64_t>(configuration.seed)),
      parameters_(parameters_of(stages_, segments_, model_, grid_, tensor_options(configuration),
                                shards_weights(configuration))),
      checks_gradients_(configuration.check_gradients) {
  for (const models::Segment& segment : segments_)
    slice_names_.push_back({"forward " + segment.name, "backward " + segment.name});
}

void Trainer::initialize() {
  nn::initialize(parameters_, static_cast<uint64_t>(configuration_.seed));
  if (shards_weights(configuration_)) return;  // those of a plain module are already the same as one rank's
  for (const nn::Parameter& parameter : parameters_)
    if (!parameter.initial && parameter.layout.grid().cell_of(grid_.world().rank()))
      parallel::broadcast_piece(parameter);  // for a plain module, whose values may come from elsewhere than the seed
}

parallel::Optimizer& Trainer::optimizer() {
  if (!optimizer_) optimizer_.emplace(make_optimizer(configuration_, segments_, parameters_, grid_.world()));
  return *optimizer_;
}

data::BatchPart Trainer::part_of(std::span<const int64_t> samples) const {
  const Communicator& ranks = batch_ranks(grid_);
  return data::part_of(std::ssize(samples), ranks.rank(), ranks.size());
}

MicroBatch Trainer::micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                const Step& step) const {
  MicroBatch batch =
      micro_batch_of(task_, part, samples, mine, step, weight_type(configuration_.precision), grid_.axis("cp"));
  batch.pass.step.weighs_tokens = batch.output_is_per_token;
  return batch;
}

/// What a worker sums over micro-batches, and then over workers.
class Trainer::Sums {
 public:
  explicit Sums(const std::vector<models::Segment>& segments) : experts_(segments) {}
  void add(double loss, const MicroBatch& batch, double flops, const std::vector<double>& tally) {
    loss_ += loss;
    tokens_ += static_cast<double>(batch.tokens);
    flops_ += flops;
    tally_.resize(tally.size());
    for (size_t i = 0; i < tally.size(); ++i) tally_[i] += tally[i];
  }
  /// Of the ranks that know the same, `contributes` must be true on exactly one. Any rank may have noted an interrupt.
  void add_up(const Communicator& world, bool contributes, size_t tally_size) {
    std::vector<double> all{loss_, tokens_, flops_};
    all.insert(all.end(), tally_.begin(), tally_.end());
    if (!contributes) std::fill(all.begin(), all.end(), 0);
    all.resize(3 + tally_size);
    all.insert(all.end(), experts_.numbers().begin(), experts_.numbers().end());
    all.push_back(train::interrupted() ? 1 : 0);
    world.all_reduce(buffer(all));
    loss_ = all[0];
    tokens_ = all[1];
    flops_ = all[2];
    const auto experts = all.begin() + 3 + static_cast<std::ptrdiff_t>(tally_size);
    tally_.assign(all.begin() + 3, experts);
    experts_.numbers().assign(experts, all.end() - 1);
    interrupted_ = all.back() > 0;
  }
  double loss() const { return loss_; }
  int64_t tokens() const { return static_cast<int64_t>(tokens_); }
  double flops() const { return flops_; }
  const std::vector<double>& tally() const { return tally_; }
  ExpertCounts& experts() { return experts_; }
  bool interrupted() const { return interrupted_; }

 private:
  double loss_ = 0, tokens_ = 0, flops_ = 0;
  std::vector<double> tally_;
  ExpertCounts experts_;
  bool interrupted_ = false;
};

/// The micro-batches of a schedule; each is made when the first stage of this rank needs it.
class Trainer::Batches {
 public:
  using Make = std::function<MicroBatch(int)>;
  /// `uses`: how many stages of this rank use each.
  Batches(Make make, size_t uses) : make_(std::move(make)), uses_(uses) {}

  const MicroBatch& operator[](int number) {
    const auto [found, is_new] = there_.try_emplace(number);
    if (is_new) {
      const lab::TimeSlice slice("data", number);
      found->second.batch = make_(number);
    }
    return found->second.batch;
  }
  /// Returns a micro-batch for one stage; it is dropped when all stages have used it.
  const MicroBatch& use(int number) {
    std::erase_if(there_, [this](const auto& item) { return item.second.used == uses_; });
    const MicroBatch& batch = (*this)[number];
    ++there_.at(number).used;
    return batch;
  }

 private:
  struct Made {
    MicroBatch batch;
    size_t used = 0;
  };
  Make make_;
  size_t uses_;
  std::map<int, Made> there_;
};

std::vector<KnownTensor> Trainer::known_parameters() const {
  return nn::known_tensors(nn::parameters_of(*model_, model_->stage(), {"tp"}));
}

std::vector<KnownTensor> Trainer::known_inputs(const MicroBatch& batch, const at::Tensor& input) const {
  // Inputs from other stages may be anything; the micro-batch itself is equal along tp and different along all other axes.
  if (input.defined()) return {};
  std::map<std::string, Kind> kinds;
  for (const GridShape::Axis& axis : model_->stage().shape().axes())
    kinds.emplace(axis.name, axis.name == "tp" ? Kind::replicated : Kind::split);
  return {{"the input", batch.input, kinds}};
}

void Trainer::run(const pipeline::Schedule& schedule, Batches& batches, Sums& sums, double denominator,
                  double loss_scale) {
  const auto weights = tensor_options(configuration_);
  const bool checks = checks_gradients_ && at::GradMode::is_enabled();
  const auto backward = notes_backward_ ? std::make_shared<BackwardSlices>() : nullptr;
  std::optional<ForwardRecord> notes;
  if (checks) notes.emplace();
  std::vector<KnownTensor> known;  // for a stage that is checked: its inputs
  const auto segments_of_stage = [this](int stage) { return stages_.segments[static_cast<size_t>(stage)]; };
  const auto forward = [&](int stage, int number, const at::Tensor& input) {
    const MicroBatch& batch = batches.use(number);
    const Autocast autocast(configuration_.precision);
    const Range segments = segments_of_stage(stage);
    const size_t first = stages_.place_of(stage);
    at::Tensor x = input.defined() ? input : batch.input;
    if (checks) known = known_inputs(batch, input);
    const bool backward_follows = shards_weights(configuration_) && stages_.backward_follows(stage, number);
    for (int64_t i = 0; i < segments.size(); ++i) {
      const SegmentNames& names = slice_names_[static_cast<size_t>(segments.begin + i)];
      const lab::TimeSlice slice(names.forward);
      const nn::ExpertLoads loads;
      x = model_->run(first + static_cast<size_t>(i), x, batch.pass, nullptr,
                      backward_follows && i + 1 == segments.size());
      sums.experts().add(static_cast<size_t>(segments.begin + i), loads);
      if (backward) backward->note(x, names.backward);
    }
    if (stage + 1 == stages_.count()) return x;
    check_output_shape(segments_[static_cast<size_t>(segments.end - 1)], x, model_->stage(), batch.pass.rows);
    if (checks) check_gradients_of_stage(x, known_parameters(), known, model_->stage());
    return x.to(weights.dtype());  // as the next stage expects it
  };
  const auto loss = [&](int number, const at::Tensor& output) {
    const MicroBatch& batch = batches[number];
    const at::Tensor mean = loss_of(task_, output, batch, grid_) / denominator;
    if (checks) check_gradients(mean, known_parameters(), known, model_->stage(), {{"tp", Kind::replicated}});
    sums.add(mean.item<double>(), batch, flops_of(batch), task_.tally(output.detach(), batch));
    return mean;
  };
  const auto output_shape = [&](int stage, int number) {
    const models::Segment& last = segments_[static_cast<size_t>(segments_of_stage(stage).end - 1)];
    return last.output_shape(model_->stage(), batches[number].pass.rows);
  };
  const auto observer = [this](const pipeline::Action& action, double seconds) {
    if (action.kind != pipeline::Kind::forward) model_->release_weights();
    if (observer_) observer_(action, seconds);
  };
  parallel::run_pipeline(schedule, grid_.axis("pp"), {forward, loss, output_shape, weights, loss_scale, observer});
}

// One multiplication and one addition for each row and each weight that it is multiplied by, the same for each pair of tokens
// and each feature in the two products of attention, and twice as much in backward: Kaplan et al., "Scaling laws for neural
// language models", arXiv 2001.08361, section 2.1. Recomputation does not count, as in Chowdhery et al., "PaLM", arXiv
// 2204.02311, appendix B. Unlike there, the hidden half of the pairs in causal attention does not count.
double Trainer::flops_of(const MicroBatch& batch) const {
  double of_row = 0, of_pair = 0;
  for (const models::Segment& segment : segments_) {
    of_row += segment.cost;
    of_pair += segment.attention_cost;
  }
  const LocalRows& rows = batch.pass.rows;
  const auto here = static_cast<double>(rows ? rows.size() : batch.input.size(0));
  double pairs = 0;
  if (rows && rows.all().size() > 0) {
    for (const int64_t length : rows.all().lengths()) pairs += static_cast<double>(length * length);
    pairs *= here / static_cast<double>(rows.all().size());
  }
  return 3 * (of_row * here + of_pair * pairs);
}

bool Trainer::has_last_stage() const {
  return stages_.pp_of(stages_.count() - 1) == grid_.coordinate("pp");
}

void Trainer::add_up(Sums& sums, bool training) {
  const auto [size, is_new] = tally_sizes_.try_emplace(training, sums.tally().size());
  if (is_new && configuration_.pp > 1)
    size->second = static_cast<size_t>(largest_of_all(static_cast<int64_t>(size->second), grid_.world()));
  sums.add_up(grid_.world(), has_last_stage() && grid_.coordinate("tp") == 0, size->second);
}

StepResult Trainer::step(std::span<const int64_t> samples, int64_t step, double learning_rate, double loss_scale) {
  optimizer();  // it may sum gradients during backward
  const data::BatchPart mine = part_of(samples);
  const double denominator = task_.loss_denominator(data::Part::train, samples);
  const Step context{.seed = static_cast<uint64_t>(configuration_.seed),
                     .number = step,
                     .training = true,
                     .weight = denominator > 0 ? loss_scale / denominator : 0};
  Batches batches(
      [&](int i) {
        return micro_batch(data::Part::train, samples,
                           data::part_of(mine, i, static_cast<int>(configuration_.microbatches)), context);
      },
      stages_.stages_at(grid_.coordinate("pp")).size());
  Sums sums(segments_);
  run(stages_.schedule, batches, sums, denominator, loss_scale);
  checks_gradients_ = false;
  for (const auto& [part, shards] : model_->shards()) shards->take_gradients();
  const parallel::Update update = [&] {
    const lab::TimeSlice slice("optimizer");
    return optimizer().step(learning_rate, loss_scale);
  }();
  add_up(sums, /*training=*/true);
  StepResult result{.loss = sums.loss(),
                    .measures = task_.measures(sums.loss(), sums.tally(), denominator),
                    .gradient_norm = update.norm,
                    .tokens = sums.tokens(),
                    .flops = sums.flops(),
                    .interrupted = sums.interrupted(),
                    .skipped = update.skipped};
  for (const Measure& measure : sums.experts().measures(loss_scale)) result.measures.push_back(measure);
  return result;
}

at::Tensor Trainer::output(const MicroBatch& batch) const {
  const at::NoGradGuard no_gradient;
  const Autocast autocast(configuration_.precision);
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
  Sums sums(segments_);
  const at::NoGradGuard no_gradient;
  for (size_t begin = 0; begin < all; begin += in_a_row) {
    if (any_interrupted(grid_.world())) return {.interrupted = true};
    const size_t count = std::min(in_a_row, all - begin);
    Batches batches(
        [&](int i) {
          const auto samples = samples_of(begin + static_cast<size_t>(i));
          return micro_batch(part, samples, part_of(samples), {});
        },
        stages_.stages_at(grid_.coordinate("pp")).size());
    run(pipeline::forward_only(stages_.schedule, static_cast<int>(count)), batches, sums, 1);
    for (size_t i = begin; progress && i < begin + count; ++i)
      progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(all), std::ssize(samples_of(i)));
  }
  add_up(sums, /*training=*/false);
  const double denominator = task_.loss_denominator(part, order);
  const double loss = denominator > 0 ? sums.loss() / denominator : 0;
  return {.loss = loss,
          .measures = task_.measures(loss, sums.tally(), denominator),
          .tally = sums.tally(),
          .expert_rows = sums.experts().rows()};
}

}  // namespace adjoin::train
