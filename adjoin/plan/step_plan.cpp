#include "adjoin/plan/step_plan.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/parallel/weight_shards.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/plan/measured_segments.hpp"
#include "adjoin/plan/memory_walk.hpp"
#include "adjoin/plan/optimizer_needs.hpp"
#include "adjoin/plan/planned_run.hpp"
#include "adjoin/plan/segment_needs.hpp"
#include "adjoin/store/piece_runs.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/task/same_bits.hpp"
#include "adjoin/train/expert_counts.hpp"
#include "adjoin/train/lanes.hpp"
#include "adjoin/train/optimizer.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

// The most ranks with equal weights whose optimizers are run.
constexpr size_t kMostRun = 16;

/// The ranks that differ only along replica, ep and cp: their pieces of the model have equal sizes, and `model` has these shapes.
struct EqualRanks {
  models::Model model;
  RankPlan weights{};  // the part of their plans about parameters, weights and gradients
  GradientBytes gradients{};
  std::set<std::string> summed{};              // the parameters whose gradients are summed during backward
  std::map<int, OptimizerNeeds> optimizers{};  // by rank

  EqualRanks(const PlannedRun& run, const Grid& grid, const std::optional<Lanes>& lanes, int64_t samples)
      : model(model_here(run.stages, grid, at::device(at::kMeta).dtype(weight_type(run.configuration.precision)))) {
    const auto keeps_shard = keeps_shard_of_gradient(run.configuration, run.stages.segments);
    const std::vector<nn::Parameter> whole = parameters_here(run.stages, model, grid),
                                     kept = parameters_here(run.stages, model, grid, sharding_of(run.configuration));
    for (size_t i = 0; i < kept.size(); ++i) {
      const nn::Parameter& parameter = kept[i];
      const auto bytes = static_cast<int64_t>(parameter.tensor.nbytes());
      if (run.configuration.validation > 0) weights.weights += bytes;  // the best weights so far
      if (parameter.is_buffer) continue;
      weights.parameters += whole[i].tensor.numel();
      weights.weights += bytes;
      int64_t gradient = bytes;
      if (keeps_shard(parameter)) {
        gradient = static_cast<int64_t>(parallel::kept_of(parameter, parallel::Kept::shards).tensor.nbytes());
        summed.insert(parameter.name);
      }
      std::vector<int64_t>& after = gradients[whole[i].tensor.unsafeGetTensorImpl()];
      if (run.is_table(parameter.name) && (lanes || nn::ranks_of_copies(whole[i]).size() > 1))
        after = {0};
      else if (!lanes)
        after = {gradient};
      else {  // whole sums until the last backward, which adds them up over the ranks if the weight is used once
        const auto uses = std::ssize(uses_at(run.stages, grid.coordinate("pp"), whole[i].name));
        const auto of_sum = static_cast<int64_t>(whole[i].tensor.nbytes());
        after = lanes->sums_kept(samples, is_of_experts(run, whole[i]));
        for (int64_t& sums : after) sums *= uses * of_sum;
        if (gradient < of_sum && uses == 1) after.back() = gradient;
      }
      weights.gradients += std::max(gradient, std::ranges::max(after));
    }
  }

  /// If there are many ranks, the later ones get the needs of the first, whose shards are the largest.
  const OptimizerNeeds& optimizer_of(const SilentRank& rank, const PlannedRun& run,
                                     const MicroBatches::OfRank& of_rank) {
    const int number = rank.grid.world().rank();
    const auto found = optimizers.find(number);
    if (found != optimizers.end()) return found->second;
    if (optimizers.size() >= kMostRun) return optimizers.begin()->second;
    std::vector<nn::Parameter> kept = parameters_here(run.stages, model, rank.grid, sharding_of(run.configuration));
    return optimizers
        .emplace(number,
                 needs_of_optimizer(run, rank, std::move(kept), parameters_here(run.stages, model, rank.grid), of_rank))
        .first->second;
  }
};

/// The bytes that CheckpointSave copies on a rank.
int64_t copied_by_save(const PlannedRun& run, const models::Model& model, const Grid& grid, int64_t moments) {
  if (run.configuration.save != SaveMode::background) return 0;
  int64_t weights = 0;
  for (const nn::Parameter& parameter : parameters_here(run.stages, model, grid))
    weights += share_of(parameter).size() * static_cast<int64_t>(parameter.tensor.element_size());
  return moments + (run.configuration.validation > 0 ? 2 : 1) * weights;
}

/// The bytes of each tensor that goes to the next stage, or of each gradient that comes back.
std::vector<int64_t> sizes_sent(const parallel::Bundle& tensors, bool forward) {
  std::vector<int64_t> bytes;
  for (const auto& [name, tensor] : tensors.items())
    if (forward || tensor.requires_grad()) bytes.push_back(static_cast<int64_t>(tensor.nbytes()));
  return bytes;
}

/// Goes through the actions of a rank, and adds up what they need.
class PlannedRank {
 public:
  PlannedRank(const PlannedRun& run, const EqualRanks& alike, const OptimizerNeeds& optimizer, SilentRank& rank,
              const MicroBatches::OfRank& of_rank, MeasuredSegments& measured)
      : run_(run),
        pp_(rank.grid.coordinate("pp")),
        along_pp_(rank.grid.axis("pp").size()),
        one_a_host_(run.hosts == rank.grid.world().size()),
        owner_{alike.model, alike.summed, rank.grid, *rank.calls, of_rank.held()},
        batches_(of_rank.batches),
        measured_(measured),
        plan_(alike.weights),
        memory_(alike.model, alike.gradients, plan_.weights + optimizer.moments) {
    plan_.rank = rank.grid.world().rank();
    plan_.pp = pp_;
    plan_.rows = rank.rows;
    plan_.moments = optimizer.moments;
    plan_.checkpoint_copies = copied_by_save(run, alike.model, rank.grid, plan_.moments);
    plan_.calls = optimizer.calls;
    plan_.update = optimizer.calls;
    plan_.updated_weights = optimizer.updated;
    plan_.solved_matrices = optimizer.solved;
    for (const int stage : run.stages.stages_at(pp_))
      plan_.work.push_back({.stage = stage, .forward = {}, .backward = {}});
    const auto& actions = run.stages.schedule.actions[static_cast<size_t>(pp_)];
    for (size_t i = 0; i < actions.size(); ++i) carry_out(actions[i], run.timeline.begins[static_cast<size_t>(pp_)][i]);
    for (const auto& [segment, calls] : of_step_) {
      plan_.calls.insert(plan_.calls.end(), calls.begin(), calls.end());
      plan_.update.insert(plan_.update.end(), calls.begin(), calls.end());
    }
    plan_.activations = memory_.most_kept();
    plan_.highest = std::max(memory_.highest(), plan_.weights + optimizer.highest);
  }

  RankPlan plan() && { return std::move(plan_); }

 private:
  const OrderedBatch& batch_of(const pipeline::Action& action) const {
    return batches_[static_cast<size_t>(action.micro_batch)];
  }
  StageWork& work_of(int stage) { return *std::ranges::find(plan_.work, stage, &StageWork::stage); }

  void send(const pipeline::Action& action, int to) {
    if (run_.stages.pp_of(to) == pp_) return;
    const bool forward = to > action.stage;
    const parallel::Bundle tensors = measured_.arriving(std::min(action.stage, to), owner_, batch_of(action));
    const std::vector<int64_t> sizes = sizes_sent(tensors, forward);
    for (const int64_t size : sizes) plan_.calls.push_back({std::nullopt, along_pp_, size});
    if (forward && run_.stages.segments.front().with_input)  // what they are travels ahead
      for (const int64_t numbers : {int64_t{1}, std::ssize(parallel::numbers_of(parallel::spec_of(tensors)))})
        plan_.calls.push_back({std::nullopt, along_pp_, static_cast<int64_t>(sizeof(int64_t)) * numbers});
    const int64_t bytes = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    if (forward) work_of(action.stage).sent += bytes;
    memory_.send(bytes, run_.taken_at(to, to > action.stage, action.micro_batch));
  }

  void receive(const pipeline::Action& action, int from) {
    if (from < 0 || from >= run_.stages.count() || run_.stages.pp_of(from) == pp_) return;
    const auto sizes =
        sizes_sent(measured_.arriving(std::min(action.stage, from), owner_, batch_of(action)), from < action.stage);
    memory_.receive(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  }

  void carry_out(const pipeline::Action& action, double now) {
    const auto [known, is_new] = needs_of_.try_emplace({action.stage, action.micro_batch});
    if (is_new) known->second = measured_.needs(action.stage, action.micro_batch, owner_, batch_of(action));
    const StageNeeds& needs = known->second;
    if (action.kind == pipeline::Kind::forward)
      receive(action, action.stage - 1);
    else if (action.kind != pipeline::Kind::weight)
      receive(action, action.stage + 1);
    memory_.run(action, needs, now);
    if (action.kind == pipeline::Kind::weight) return;
    if (action.kind != pipeline::Kind::forward) {
      if (action.stage > 0) send(action, action.stage - 1);
      return;
    }
    for (size_t segment = 0; segment < needs.segments.size(); ++segment) add_calls(action.stage, segment, needs);
    if (action.stage + 1 < run_.stages.count())
      send(action, action.stage + 1);
    else
      plan_.tally = needs.segments.back()->tally;
  }

  /// The calls of a segment in forward and backward, and those of the step.
  void add_calls(int stage, size_t segment, const StageNeeds& needs) {
    const SegmentNeeds& of_segment = *needs.segments[segment];
    std::vector<PlannedCall> calls = of_segment.calls;
    const auto turn = calls.begin() + static_cast<std::ptrdiff_t>(of_segment.forward_calls);
    const auto fetch_ahead = [&](auto first, size_t count) {
      for (auto call = first; call != first + static_cast<std::ptrdiff_t>(count); ++call) call->goes_on = one_a_host_;
    };
    if (segment > 0) fetch_ahead(calls.begin(), of_segment.gathers);
    if (segment + 1 < needs.segments.size()) fetch_ahead(turn, of_segment.gathers_again);
    plan_.calls.insert(plan_.calls.end(), calls.begin(), calls.end());
    StageWork& work = work_of(stage);
    work.forward.insert(work.forward.end(), calls.begin(), turn);
    work.backward.insert(work.backward.end(), turn, calls.end());
    work.seconds += of_segment.seconds;
    ++work.passes;
    if (of_segment.calls_of_step.empty()) return;
    std::vector<PlannedCall>& sums = of_step_[{stage, segment}];
    if (sums.empty()) sums.resize(of_segment.calls_of_step.size());
    for (size_t call = 0; call < sums.size(); ++call) {
      const int64_t before = sums[call].bytes;
      sums[call] = of_segment.calls_of_step[call];
      sums[call].bytes += before;
    }
  }

  const PlannedRun& run_;
  const int pp_, along_pp_;
  const bool one_a_host_;
  const SegmentsOwner owner_;
  const std::vector<OrderedBatch>& batches_;
  MeasuredSegments& measured_;
  RankPlan plan_;
  MemoryWalk memory_;
  std::map<std::pair<int, int>, StageNeeds> needs_of_;                  // by stage and micro-batch
  std::map<std::pair<int, size_t>, std::vector<PlannedCall>> of_step_;  // by stage and segment
};

/// What the models of ranks depend on, besides their coordinates along pp and tp.
std::vector<int64_t> layout_of_models(const Configuration& c, const Stages& stages) {
  std::vector<int64_t> numbers{c.dp, c.ep, c.pp, c.cp, c.tp, c.sp ? 1 : 0, c.zero, c.chunks};
  // Which decide on a program's cuts, and on the sums of lanes.
  if (c.has_program() || c.same_bits != "off") numbers.push_back(c.microbatches);
  numbers.insert(numbers.end(), {static_cast<int64_t>(c.cp_method), static_cast<int64_t>(c.recompute)});
  numbers.insert(numbers.end(), stages.ends.begin(), stages.ends.end());
  return numbers;
}

/// On what a rank's model and gradients depend: its coordinates along pp and tp, that along replica where a program shards its weights
/// itself, and how many lanes it has.
std::tuple<int, int, int> place_of_model(const Configuration& c, const Grid& grid, const std::optional<Lanes>& lanes) {
  const int third = lanes                            ? static_cast<int>(lanes->count())
                    : c.has_program() && c.zero == 3 ? grid.coordinate("replica")
                                                     : 0;
  return {grid.coordinate("pp"), grid.coordinate("tp"), third};
}

}  // namespace

struct StepPlanner::Measured {
  SegmentClock clock;
  int64_t hosts;
  std::map<nn::AssumedExperts::Spread, KnownNeeds> needs{};
  std::map<std::vector<int64_t>, std::map<std::tuple<int, int, int>, EqualRanks>>
      models{};  // by coordinates: place_of_model
};

StepPlanner::StepPlanner(SegmentClock clock, int64_t hosts)
    : measured_(std::make_unique<Measured>(Measured{.clock = std::move(clock), .hosts = hosts})) {}
StepPlanner::~StepPlanner() = default;

SegmentSeconds& SegmentSeconds::operator+=(const SegmentSeconds& other) {
  for (const auto part : kPartsOfSeconds) this->*part += other.*part;
  return *this;
}

SegmentSeconds SegmentSeconds::operator*(double factor) const {
  return {factor * forward, factor * backward, factor * weight_gradients, factor * waiting};
}

std::vector<RankPlan> StepPlanner::plan(const Configuration& configuration, const Task& task,
                                        std::span<const int64_t> samples, std::span<const int> wanted,
                                        nn::AssumedExperts::Spread routing) {
  const nn::AssumedExperts assumed(routing, /*alone=*/true);
  const WithOrder with_order(order_of(configuration));
  const PlannedRun run{configuration, task, measured_->hosts,
                       stages_of(configuration, segments_of(configuration, task))};
  MicroBatches batches(configuration, task, samples);
  auto& models = measured_->models[layout_of_models(configuration, run.stages)];
  std::vector<SilentRank> ranks;
  std::vector<OptimizerNeeds> optimizers;
  const auto model_of = [&](const SilentRank& rank) -> EqualRanks& {
    const auto& lanes = batches.of(rank.grid).lanes;
    return models
        .try_emplace(place_of_model(configuration, rank.grid, lanes), run, rank.grid, lanes, std::ssize(samples))
        .first->second;
  };
  const auto world = static_cast<int>(grid_sizes(configuration).ranks());
  std::vector<int> numbers(wanted.begin(), wanted.end());
  for (int number = 0; wanted.empty() && number < world; ++number) numbers.push_back(number);
  for (const int number : numbers) {
    SilentRank& rank = ranks.emplace_back(grid_sizes(configuration), number, measured_->hosts);
    const MicroBatches::OfRank& of_rank = batches.of(rank.grid);
    for (const auto& [batch, order] : of_rank.batches)
      rank.rows = std::max(rank.rows, configuration.has_program() ? batch.tokens : batch.input.size(0));
    optimizers.push_back(model_of(rank).optimizer_of(rank, run, of_rank));
  }
  // Those with the most rows first, so that these are run.
  std::vector<size_t> order(ranks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranks[a].rows > ranks[b].rows; });
  MeasuredSegments measured(configuration, task, run.stages, measured_->clock, measured_->needs[routing]);
  std::vector<RankPlan> plans(ranks.size());
  int64_t tally = 0;
  for (const size_t i : order) {
    const MicroBatches::OfRank& of_rank = batches.of(ranks[i].grid);
    plans[i] = PlannedRank(run, model_of(ranks[i]), optimizers[i], ranks[i], of_rank, measured).plan();
    tally = std::max(tally, plans[i].tally);
  }
  if (world == 1) return plans;
  const PlannedCall sums{Collective::all_reduce, world,  // the results of the step: Trainer::Sums
                         static_cast<int64_t>(sizeof(double)) * (4 + tally + ExpertCounts::count(run.stages.segments)),
                         world};
  for (RankPlan& plan : plans) {
    plan.calls.push_back(sums);
    plan.update.push_back(sums);
  }
  return plans;
}

void check_planned_device(const Configuration& c) {
  require(c.device == "cpu",
          [&] { return "--device " + c.device + ": a plan is of the CPU's memory and time, and knows no device yet"; });
}

std::vector<RankPlan> plan_step(const Configuration& configuration, const Task& task, std::span<const int64_t> samples,
                                nn::AssumedExperts::Spread routing, int64_t hosts) {
  return StepPlanner({}, hosts).plan(configuration, task, samples, {}, routing);
}

}  // namespace adjoin::plan
