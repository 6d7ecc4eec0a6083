#include "adjoin/train/step_plan.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>

#include "adjoin/base/hash.hpp"
#include "adjoin/lab/silent_backend.hpp"
#include "adjoin/parallel/gradient_shard.hpp"
#include "adjoin/parallel/weight_shards.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/train/expert_counts.hpp"
#include "adjoin/train/grid_sizes.hpp"
#include "adjoin/train/memory_walk.hpp"
#include "adjoin/train/optimizer.hpp"
#include "adjoin/train/segment_needs.hpp"
#include "adjoin/train/storage/piece_runs.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::train {
namespace {

// Of each segment so many different micro-batches are run, and the optimizer of so many ranks with equal weights.
constexpr size_t kMostRun = 16;

/// The micro-batches of a step on the ranks at each coordinate of dp and cp.
class MicroBatches {
 public:
  MicroBatches(const Configuration& c, const Task& task, std::span<const int64_t> samples)
      : configuration_(c), task_(task), samples_(samples) {}

  const std::vector<MicroBatch>& of(const Grid& grid) {
    const Communicator& dp = batch_ranks(grid);
    const Communicator& cp = grid.axis("cp");
    std::vector<MicroBatch>& batches = known_[{dp.rank(), cp.rank()}];
    const auto count = static_cast<int>(configuration_.microbatches);
    const data::BatchPart mine = data::part_of(std::ssize(samples_), dp.rank(), dp.size());
    for (int i = static_cast<int>(batches.size()); i < count; ++i)
      batches.push_back(
          context_parallel_part(task_.micro_batch(data::Part::train, samples_, data::part_of(mine, i, count),
                                                  {.training = true, .weight = 1}),
                                task_, cp));
    return batches;
  }

 private:
  const Configuration& configuration_;
  const Task& task_;
  std::span<const int64_t> samples_;
  std::map<std::pair<int, int>, std::vector<MicroBatch>> known_;
};

/// A rank that is alone with its part of the grid.
struct LoneRank {
  std::shared_ptr<PlannedCalls> calls = std::make_shared<PlannedCalls>();
  Grid grid;
  int64_t rows = 0;  ///< of its largest micro-batch

  LoneRank(const GridSizes& sizes, int rank)
      : grid(Communicator(std::make_shared<lab::SilentBackend>(rank, static_cast<int>(sizes.ranks())), calls),
             sizes.shape()) {}
};

/// One stretch of zeros for all parameters of a rank and their gradients. Of pages that nobody writes to there is only one.
at::Tensor shared_zeros(int64_t numbers, at::ScalarType type) {
  void* memory = std::calloc(static_cast<size_t>(std::max<int64_t>(1, numbers)), c10::elementSize(type));
  if (memory == nullptr) throw std::bad_alloc();
  return at::from_blob(memory, {numbers}, std::free, at::TensorOptions(type));
}

struct OptimizerNeeds {
  int64_t moments = 0;  ///< bytes
  std::vector<PlannedCall> calls;
};

/// What all ranks are planned from.
struct Job {
  const Configuration& configuration;
  const Task& task;
  std::vector<models::Segment> segments;
  Stages stages;
  pipeline::Timeline timeline;

  /// When a stage takes what another has sent it of a micro-batch: to go forward, or back.
  double taken_at(int stage, bool forward, int micro_batch) const {
    const auto rank = static_cast<size_t>(stages.pp_of(stage));
    const auto& actions = stages.schedule.actions[rank];
    const auto found = std::ranges::find_if(actions, [&](const pipeline::Action& action) {
      return action.stage == stage && action.micro_batch == micro_batch && action.kind != pipeline::Kind::weight &&
             (action.kind == pipeline::Kind::forward) == forward;
    });
    return timeline.begins[rank][static_cast<size_t>(found - actions.begin())];
  }
};

/// Of an optimizer whose rule changes nothing.
OptimizerNeeds needs_of_optimizer(const Job& job, std::vector<nn::Parameter> parameters, PlannedCalls& calls) {
  const Configuration& c = job.configuration;
  int64_t largest = 0;
  for (const nn::Parameter& parameter : parameters) largest = std::max(largest, parameter.tensor.numel());
  const at::Tensor zeros = shared_zeros(largest, tensor_options(c).dtype().toScalarType());
  for (nn::Parameter& parameter : parameters) {
    if (parameter.is_buffer || !parameter.tensor.requires_grad()) continue;
    const auto shape = parameter.tensor.sizes().vec();
    parameter.tensor = zeros.narrow(0, 0, parameter.tensor.numel()).view(shape).detach().requires_grad_(true);
    parameter.tensor.mutable_grad() = parameter.tensor.detach();
  }
  parallel::Rule rule = rule_of(c);
  rule.update = [](const parallel::FlatPiece&, const parallel::UpdateStep&) {};
  const Communicator world = parameters.front().grid.world();
  parallel::Optimizer optimizer(
      std::move(parameters), std::move(rule),
      {.compares_copies = false, .sums_in_backward = sums_in_backward(c, job.segments), .workers = world});
  calls.calls.clear();
  optimizer.step(0);
  return {optimizer.moment_bytes(), std::exchange(calls.calls, {})};
}

/// The ranks that differ along dp, ep and cp alone: they have equally large pieces of the model, of which this has shapes.
struct AlikeModels {
  models::Model model;
  RankPlan weights{};  // what their plans say of parameters, weights and gradients
  GradientBytes gradients{};
  std::set<std::string> summed{};  // the parameters whose gradients are summed within backward
  std::vector<OptimizerNeeds> optimizers{};

  AlikeModels(const Job& job, const Grid& grid)
      : model(segments_here(job.stages, job.segments, grid), grid.at("pp", grid.coordinate("pp")),
              tensor_options(job.configuration).device(at::kMeta)) {
    const auto is_summed = sums_in_backward(job.configuration, job.segments);
    const std::vector<nn::Parameter> whole = parameters_here(job.stages, job.segments, model, grid),
                                     kept = parameters_here(job.stages, job.segments, model, grid,
                                                            shards_weights(job.configuration));
    for (size_t i = 0; i < kept.size(); ++i) {
      const nn::Parameter& parameter = kept[i];
      const auto bytes = static_cast<int64_t>(parameter.tensor.nbytes());
      if (job.configuration.validation > 0) weights.weights += bytes;  // the best ones so far
      if (parameter.is_buffer) continue;
      weights.parameters += whole[i].tensor.numel();
      weights.weights += bytes;
      int64_t& gradient = gradients[whole[i].tensor.unsafeGetTensorImpl()] = bytes;
      if (is_summed && is_summed(parameter) && parallel::GradientShard::fits(parameter)) {
        gradient = static_cast<int64_t>(parallel::shard_of(parameter).tensor.nbytes());
        summed.insert(parameter.name);
      }
      weights.gradients += gradient;
    }
  }

  /// Of the next rank. Of many ranks the later ones get what the first needs, whose shards are the largest.
  const OptimizerNeeds& optimizer_of(const LoneRank& rank, const Job& job) {
    if (optimizers.size() >= kMostRun) return optimizers.front();
    return optimizers.emplace_back(needs_of_optimizer(
        job, parameters_here(job.stages, job.segments, model, rank.grid, shards_weights(job.configuration)),
        *rank.calls));
  }
};

/// Measures segments, each distinct one once.
class Measured {
 public:
  Measured(const Configuration& configuration, const Task& task, const Stages& stages)
      : configuration_(configuration), task_(task), stages_(stages), segments_(segments_of(configuration, task)) {
    for (const auto& of_rank : stages.schedule.actions)
      for (const pipeline::Action& action : of_rank)
        if (action.kind == pipeline::Kind::input) split_.emplace(action.stage, action.micro_batch);
  }

  /// Of the segments of one of a rank's stages, for the micro-batch of this number.
  StageNeeds needs(int stage, int number, const AlikeModels& alike, const Grid& grid, const MicroBatch& batch,
                   PlannedCalls& calls) {
    const models::Model& model = alike.model;
    const bool splits = split_.contains({stage, number});
    const Range range = stages_.segments[static_cast<size_t>(stage)];
    StageNeeds needs{stages_.place_of(stage)};
    at::Tensor input = stage == 0 ? at::Tensor() : arriving(static_cast<size_t>(range.begin) - 1, model, batch);
    const bool keeps_gathered = shards_weights(configuration_) && stages_.backward_follows(stage, number);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const std::set<std::string> earlier = splits ? std::set<std::string>() : summed_earlier(range.begin, i);
      const bool is_last = i + 1 == std::ssize(segments_);
      needs.segments.push_back(&needs_of(model, needs.first + static_cast<size_t>(i - range.begin),
                                         {grid, batch, input, is_last, stage > 0 && i == range.begin, splits,
                                          i + 1 == range.end && keeps_gathered, calls, alike.summed, earlier}));
      input = needs.segments.back()->output;
    }
    return needs;
  }
  /// Of what a segment's output becomes for the next stage, which has its shape, on any rank.
  at::Tensor arriving(size_t segment, const models::Model& model, const MicroBatch& batch) const {
    return at::empty(segments_[segment].output_shape(model->stage(), batch.pass.rows),
                     tensor_options(configuration_).device(at::kMeta))
        .requires_grad_(true);
  }

 private:
  struct Given {
    const Grid& grid;
    const MicroBatch& batch;
    at::Tensor input;
    bool is_last, is_first;  // of the model; of a stage that receives its input
    bool splits;             // whether gradients of weights are left for later
    bool backward_follows;
    PlannedCalls& calls;
    const std::set<std::string>& summed;
    const std::set<std::string>& summed_earlier;
  };

  /// The parts of a segment that an earlier one of its stage names too: autograd adds their gradients up before it gives them on,
  /// unless one of the segments is computed again.
  std::set<std::string> summed_earlier(int64_t first, int64_t segment) const {
    std::set<std::string> parts;
    const models::Segment& mine = segments_[static_cast<size_t>(segment)];
    if (!shards_weights(configuration_) || mine.recomputes) return parts;
    for (int64_t i = first; i < segment; ++i) {
      const models::Segment& other = segments_[static_cast<size_t>(i)];
      for (const models::Part& part : other.parts)
        if ((i == 0 || !other.recomputes) &&
            std::ranges::find(mine.parts, part.name, &models::Part::name) != mine.parts.end())
          parts.insert(part.name);
    }
    return parts;
  }

  const SegmentNeeds& needs_of(const models::Model& model, size_t i, const Given& given) {
    auto& of_loads =
        known_[name_of(model, i, given) + (given.is_first ? ", holds its input" : "") +
               (given.splits ? ", splits backward" : "") + (given.backward_follows ? ", backward follows" : "") +
               (given.summed_earlier.empty() ? "" : ", summed earlier")];
    const Load load = load_of(model, i, given.batch);
    auto found = of_loads.find(load);
    if (found == of_loads.end() && of_loads.size() >= kMostRun) found = of_loads.lower_bound({load.first, 0});
    if (found == of_loads.end())
      found = of_loads
                  .emplace(load, measure({configuration_, task_, model->segments()[i], given.grid, given.batch,
                                          given.input, given.is_last, given.is_first, given.splits, given.summed,
                                          given.backward_follows, given.summed_earlier, given.calls}))
                  .first;
    return found->second;
  }

  /// A number of rows, and what else tells micro-batches of as many rows apart.
  using Load = std::pair<int64_t, uint64_t>;

  /// What is the same for all micro-batches: the segment's kind, and the pieces of weights that the rank has.
  std::string name_of(const models::Model& model, size_t i, const Given& given) const {
    const models::Segment& segment = model->segments()[i];
    std::string name = segment.kind.empty() ? segment.name : segment.kind;
    for (const auto& module : model->modules(i).of_parts)
      for (const at::Tensor& weight : module->parameters()) name.append(" ").append(shape_text(weight.sizes().vec()));
    if (shards_weights(configuration_)) name += shards_of(model, i, given.grid);
    name += " of worker " + std::to_string(given.batch.pass.rows.index());
    if (segment.recomputes) name += ", recomputed";
    if (given.input.defined() && given.input.requires_grad()) name += ", with a gradient";
    return name;
  }
  /// Which of a segment's weights the rank has the larger shards of.
  static std::string shards_of(const models::Model& model, size_t i, const Grid& grid) {
    std::string text = ", shards ";
    for (const auto& module : model->modules(i).of_parts)
      for (const nn::Parameter& parameter : nn::parameters_of(*module, model->stage(), {"tp"})) {
        if (parameter.is_buffer || parameter.tensor.dim() == 0) continue;
        int64_t place = 0, copies = 1;
        for (const std::string& axis : parameter.layout.axes(Kind::copied)) {
          const int size = parameter.layout.grid().axis_size(axis);
          place = place * size + grid.coordinate(axis);
          copies *= size;
        }
        text += place < parameter.tensor.size(0) % copies ? '+' : '-';
      }
    return text;
  }
  static Load load_of(const models::Model& model, size_t i, const MicroBatch& batch) {
    const int64_t rows = batch.input.size(0);
    std::vector<int64_t> numbers;
    if (batch.pass.rows) numbers = batch.pass.rows.all().lengths();
    if (const models::Segment& segment = model->segments()[i]; segment.output_shape)
      numbers.push_back(segment.output_shape(model->stage(), batch.pass.rows).front());
    return {rows, hash_of(std::span<const int64_t>(numbers))};
  }

  const Configuration& configuration_;
  const Task& task_;
  const Stages& stages_;
  const std::vector<models::Segment> segments_;  // of all stages
  std::set<std::pair<int, int>> split_;          // the stages and micro-batches whose backward has two parts
  std::map<std::string, std::map<Load, SegmentNeeds>> known_;
};

/// The bytes of what CheckpointSave copies on a rank.
int64_t copied_by_save(const Job& job, const models::Model& model, const Grid& grid, int64_t moments) {
  if (job.configuration.save != "background") return 0;
  int64_t weights = 0;
  for (const nn::Parameter& parameter : parameters_here(job.stages, job.segments, model, grid))
    weights += share_of(parameter).size() * static_cast<int64_t>(parameter.tensor.element_size());
  return moments + (job.configuration.validation > 0 ? 2 : 1) * weights;
}

RankPlan plan_rank(const Job& job, const AlikeModels& alike, const OptimizerNeeds& optimizer, LoneRank& rank,
                   const std::vector<MicroBatch>& batches, Measured& measured) {
  const models::Model& model = alike.model;
  const int pp = rank.grid.coordinate("pp"), along_pp = rank.grid.axis("pp").size();
  RankPlan plan = alike.weights;
  plan.rank = rank.grid.world().rank();
  plan.pp = pp;
  plan.rows = rank.rows;
  plan.moments = optimizer.moments;
  plan.copies = copied_by_save(job, model, rank.grid, plan.moments);
  plan.calls = optimizer.calls;
  MemoryWalk memory(model, alike.gradients, plan.weights + plan.moments);
  std::map<std::pair<int, int>, StageNeeds> needs_of;  // by stage and micro-batch
  const auto send = [&](const pipeline::Action& action, int to, size_t output) {
    if (job.stages.pp_of(to) == pp) return;
    const MicroBatch& batch = batches[static_cast<size_t>(action.micro_batch)];
    const auto bytes = static_cast<int64_t>(measured.arriving(output, model, batch).nbytes());
    plan.calls.push_back({std::nullopt, along_pp, bytes});
    memory.send(bytes, job.taken_at(to, to > action.stage, action.micro_batch));
  };
  const auto& actions = job.stages.schedule.actions[static_cast<size_t>(pp)];
  for (size_t i = 0; i < actions.size(); ++i) {
    const pipeline::Action& action = actions[i];
    const MicroBatch& batch = batches[static_cast<size_t>(action.micro_batch)];
    const Range segments = job.stages.segments[static_cast<size_t>(action.stage)];
    const auto [known, is_new] = needs_of.try_emplace({action.stage, action.micro_batch});
    if (is_new) known->second = measured.needs(action.stage, action.micro_batch, alike, rank.grid, batch, *rank.calls);
    const StageNeeds& needs = known->second;
    memory.run(action.kind, needs, job.timeline.begins[static_cast<size_t>(pp)][i]);
    if (action.kind == pipeline::Kind::weight) continue;
    if (action.kind != pipeline::Kind::forward) {
      if (action.stage > 0) send(action, action.stage - 1, static_cast<size_t>(segments.begin - 1));
      continue;
    }
    for (const SegmentNeeds* of_segment : needs.segments)
      plan.calls.insert(plan.calls.end(), of_segment->calls.begin(), of_segment->calls.end());
    if (action.stage + 1 < job.stages.count())
      send(action, action.stage + 1, static_cast<size_t>(segments.end - 1));
    else
      plan.tally = needs.segments.back()->tally;
  }
  plan.activations = memory.most_kept();
  plan.highest = memory.highest();
  return plan;
}

}  // namespace

std::vector<RankPlan> plan_step(const Configuration& configuration, const Task& task, std::span<const int64_t> samples,
                                nn::AssumedExperts::Rows routing) {
  const nn::AssumedExperts assumed(routing, /*alone=*/true);
  std::vector<models::Segment> segments = segments_of(configuration, task);
  Stages stages = stages_of(configuration, segments);
  pipeline::Timeline timeline = expected_timeline(stages, segments);
  const Job job{configuration, task, std::move(segments), std::move(stages), std::move(timeline)};
  MicroBatches batches(configuration, task, samples);
  std::map<std::pair<int, int>, AlikeModels> models;  // by the coordinates along pp and tp
  std::vector<LoneRank> ranks;
  std::vector<OptimizerNeeds> optimizers;
  const auto model_of = [&](const LoneRank& rank) -> AlikeModels& {
    const std::pair place(rank.grid.coordinate("pp"), rank.grid.coordinate("tp"));
    const auto found = models.find(place);
    return found != models.end() ? found->second : models.try_emplace(place, job, rank.grid).first->second;
  };
  for (int number = 0; number < grid_sizes(configuration).ranks(); ++number) {
    LoneRank& rank = ranks.emplace_back(grid_sizes(configuration), number);
    for (const MicroBatch& batch : batches.of(rank.grid)) rank.rows = std::max(rank.rows, batch.input.size(0));
    optimizers.push_back(model_of(rank).optimizer_of(rank, job));
  }
  // Those of most rows first, so that they are run.
  std::vector<size_t> order(ranks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranks[a].rows > ranks[b].rows; });
  Measured measured(configuration, task, job.stages);
  std::vector<RankPlan> plans(ranks.size());
  int64_t tally = 0;
  for (const size_t i : order) {
    plans[i] = plan_rank(job, model_of(ranks[i]), optimizers[i], ranks[i], batches.of(ranks[i].grid), measured);
    tally = std::max(tally, plans[i].tally);
  }
  if (ranks.size() > 1)  // what the step came to: Trainer::Sums
    for (RankPlan& plan : plans)
      plan.calls.push_back({Collective::all_reduce, static_cast<int>(ranks.size()),
                            static_cast<int64_t>(sizeof(double)) * (4 + tally + ExpertCounts::count(job.segments))});
  return plans;
}

}  // namespace adjoin::train
