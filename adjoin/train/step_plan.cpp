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
#include "adjoin/partition/layout.hpp"
#include "adjoin/train/grid_sizes.hpp"
#include "adjoin/train/optimizer.hpp"
#include "adjoin/train/segment_needs.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::train {
namespace {

// Of each segment so many different micro-batches are run, and the optimizer of so many ranks with equal weights.
constexpr size_t kMostRun = 16;

/// The most bytes at once while micro-batches go forward and back, one after another: activations are there from forward
/// until backward has passed their segment, and gradients from then on.
class MemoryWalk {
 public:
  explicit MemoryWalk(int64_t before) : live_(before), highest_(before) {}

  void micro_batch(const models::Model& model, const std::vector<const SegmentNeeds*>& needs) {
    for (const SegmentNeeds* of_segment : needs) {
      highest_ = std::max(highest_, live_ + of_segment->forward);
      live_ += of_segment->kept;
    }
    for (size_t i = needs.size(); i-- > 0;) {
      highest_ = std::max(highest_, live_ + needs[i]->backward);
      live_ -= needs[i]->kept;
      for (const auto& module : model->modules(i).of_parts)
        for (const at::Tensor& weight : module->parameters())
          if (counted_.insert(weight.unsafeGetTensorImpl()).second) live_ += static_cast<int64_t>(weight.nbytes());
    }
  }
  int64_t highest() const { return highest_; }

 private:
  int64_t live_, highest_;
  std::set<const c10::TensorImpl*> counted_;  // whose gradients are there
};

/// Measures segments, each distinct one once.
class Measured {
 public:
  Measured(const Configuration& configuration, const Task& task) : configuration_(configuration), task_(task) {}

  /// Of all segments of a rank, in their order, for one micro-batch. `model` has shapes alone.
  std::vector<const SegmentNeeds*> needs(const models::Model& model, const Grid& grid, const MicroBatch& batch,
                                         PlannedCalls& calls) {
    std::vector<const SegmentNeeds*> all;
    const size_t segments = model->segments().size();
    for (size_t i = 0; i < segments; ++i) {
      const at::Tensor input = i == 0 ? at::Tensor() : all.back()->output;
      auto& of_loads = known_[name_of(model, i, batch, input)];
      const Load load = load_of(model, i, batch);
      auto found = of_loads.find(load);
      if (found == of_loads.end() && of_loads.size() >= kMostRun) found = of_loads.lower_bound({load.first, 0});
      if (found == of_loads.end())
        found = of_loads
                    .emplace(load, measure({configuration_, task_, model->segments()[i], grid, batch, input,
                                            /*is_last=*/i + 1 == segments, calls}))
                    .first;
      all.push_back(&found->second);
    }
    return all;
  }

 private:
  /// A number of rows, and what else tells micro-batches of as many rows apart.
  using Load = std::pair<int64_t, uint64_t>;

  /// What is the same for all micro-batches: the segment's kind, and the pieces of weights that the rank has.
  static std::string name_of(const models::Model& model, size_t i, const MicroBatch& batch, const at::Tensor& input) {
    const models::Segment& segment = model->segments()[i];
    std::string name = segment.kind.empty() ? segment.name : segment.kind;
    for (const auto& module : model->modules(i).of_parts)
      for (const at::Tensor& weight : module->parameters()) name += " " + shape_text(weight.sizes().vec());
    name += " of worker " + std::to_string(batch.pass.rows.index());
    if (segment.recomputes) name += ", recomputed";
    if (input.defined() && input.requires_grad()) name += ", with a gradient";
    return name;
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
  std::map<std::string, std::map<Load, SegmentNeeds>> known_;
};

/// The micro-batches of a step on the ranks at each coordinate of dp and cp.
class MicroBatches {
 public:
  MicroBatches(const Configuration& c, const Task& task, std::span<const int64_t> samples)
      : configuration_(c), task_(task), samples_(samples) {}

  const std::vector<MicroBatch>& of(const Grid& grid) {
    const Communicator& dp = grid.axis("dp");
    const Communicator& cp = grid.axis("cp");
    std::vector<MicroBatch>& batches = known_[{dp.rank(), cp.rank()}];
    const auto count = static_cast<int>(configuration_.microbatches);
    const data::BatchPart mine = data::part_of(std::ssize(samples_), dp.rank(), dp.size());
    for (int i = static_cast<int>(batches.size()); i < count; ++i)
      batches.push_back(context_parallel_part(
          task_.micro_batch(data::Part::train, samples_, data::part_of(mine, i, count), {.training = true}), task_,
          cp));
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

/// Of an optimizer whose rule changes nothing.
OptimizerNeeds needs_of_optimizer(const Configuration& c, std::vector<nn::Parameter> parameters, PlannedCalls& calls) {
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
  parallel::Optimizer optimizer(std::move(parameters), std::move(rule), {.compares_copies = false});
  calls.calls.clear();
  optimizer.step(0);
  return {optimizer.moment_bytes(), std::exchange(calls.calls, {})};
}

/// The ranks that differ along dp and cp alone: they have equal pieces of the model, of which this has shapes.
struct AlikeModels {
  models::Model model;
  std::vector<OptimizerNeeds> optimizers{};

  AlikeModels(const Configuration& c, const Task& task, const Grid& grid)
      : model(segments_of(c, task), grid.at("pp", grid.coordinate("pp")), tensor_options(c).device(at::kMeta)) {}

  /// Of the next rank. Of many ranks the later ones get what the first needs, whose shards are the largest.
  const OptimizerNeeds& optimizer_of(const LoneRank& rank, const Configuration& c) {
    if (optimizers.size() >= kMostRun) return optimizers.front();
    std::vector<nn::Parameter> parameters = parameters_of(model);
    for (nn::Parameter& parameter : parameters) parameter.grid = rank.grid.at("pp", rank.grid.coordinate("pp"));
    return optimizers.emplace_back(needs_of_optimizer(c, std::move(parameters), *rank.calls));
  }
};

RankPlan plan_rank(const Configuration& c, const models::Model& model, const OptimizerNeeds& optimizer, LoneRank& rank,
                   const std::vector<MicroBatch>& batches, Measured& measured) {
  const int ranks = rank.grid.world().size();
  RankPlan plan{
      .rank = rank.grid.world().rank(), .rows = rank.rows, .moments = optimizer.moments, .calls = optimizer.calls};
  for (const nn::Parameter& parameter : parameters_of(model)) {
    const auto bytes = static_cast<int64_t>(parameter.tensor.nbytes());
    if (c.validation > 0) plan.weights += bytes;  // the best ones so far
    if (parameter.is_buffer) continue;
    plan.parameters += parameter.tensor.numel();
    plan.gradients += bytes;
  }
  plan.weights += plan.gradients;
  MemoryWalk memory(plan.weights + plan.moments);
  for (const MicroBatch& batch : batches) {
    const auto needs = measured.needs(model, rank.grid, batch, *rank.calls);
    int64_t kept = 0;
    for (const SegmentNeeds* of_segment : needs) {
      kept += of_segment->kept;
      plan.calls.insert(plan.calls.end(), of_segment->calls.begin(), of_segment->calls.end());
    }
    memory.micro_batch(model, needs);
    plan.activations = std::max(plan.activations, kept);
    if (&batch == &batches.back() && ranks > 1)  // what the step came to: Trainer::Sums
      plan.calls.push_back(
          {Collective::all_reduce, ranks, static_cast<int64_t>(sizeof(double)) * (3 + needs.back()->tally)});
  }
  plan.highest = memory.highest();
  return plan;
}

}  // namespace

std::vector<RankPlan> plan_step(const Configuration& configuration, const Task& task,
                                std::span<const int64_t> samples) {
  MicroBatches batches(configuration, task, samples);
  std::map<std::pair<int, int>, AlikeModels> models;  // by the coordinates along pp and tp
  std::vector<LoneRank> ranks;
  std::vector<OptimizerNeeds> optimizers;
  const auto model_of = [&](const LoneRank& rank) -> AlikeModels& {
    const std::pair place(rank.grid.coordinate("pp"), rank.grid.coordinate("tp"));
    const auto found = models.find(place);
    return found != models.end() ? found->second
                                 : models.try_emplace(place, configuration, task, rank.grid).first->second;
  };
  for (int number = 0; number < grid_sizes(configuration).ranks(); ++number) {
    LoneRank& rank = ranks.emplace_back(grid_sizes(configuration), number);
    for (const MicroBatch& batch : batches.of(rank.grid)) rank.rows = std::max(rank.rows, batch.input.size(0));
    optimizers.push_back(model_of(rank).optimizer_of(rank, configuration));
  }
  // Those of most rows first, so that they are run.
  std::vector<size_t> order(ranks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranks[a].rows > ranks[b].rows; });
  Measured measured(configuration, task);
  std::vector<RankPlan> plans(ranks.size());
  for (const size_t i : order)
    plans[i] = plan_rank(configuration, model_of(ranks[i]).model, optimizers[i], ranks[i], batches.of(ranks[i].grid),
                         measured);
  return plans;
}

}  // namespace adjoin::train
