#include "adjoin/plan/measured_segments.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>

#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

// The most different micro-batches that are run for each segment.
constexpr size_t kMostMicroBatches = 16;

/// What a segment's needs depend on besides what its name says.
std::vector<int64_t> layout_of_needs(const Configuration& c, const models::Segment& segment) {
  std::vector<int64_t> numbers{c.ep, c.cp, c.tp, c.sp ? 1 : 0, c.zero, parts_of_step(c) > 1 ? 1 : 0};
  numbers.insert(numbers.end(), {static_cast<int64_t>(row_options(c).method), static_cast<int64_t>(c.recompute)});
  const bool has_table = std::ranges::any_of(segment.parts, &models::ModuleRecipe::is_table);
  const bool has_order = c.same_bits != "off";
  if (c.ep > 1 || c.zero > 1 || has_table || segment.with_input || has_order)
    numbers.insert(numbers.end(), {c.dp, c.pp, c.has_program() || has_order ? c.microbatches : 0});
  return numbers;
}

/// The same for its time, which communication does not affect.
std::string layout_of_seconds(const Configuration& c) {
  const std::vector<int64_t> numbers{c.ep, c.cp, c.tp, c.sp ? 1 : 0, parts_of_step(c) > 1 ? 1 : 0};
  return joined(numbers, " ") + (c.cp > 1 ? " " + text_of("cp_method", c) : "") +
         (c.recompute == Recompute::attention                 ? " attention again"
          : c.has_program() && c.recompute != Recompute::none ? " blocks again"
                                                              : "") +
         (c.same_bits == "off" ? "" : " in order, dp " + std::to_string(c.dp)) + ": ";
}

/// The weights of a segment of which the rank has the larger shards.
std::vector<bool> larger_shards(const models::Model& model, size_t i, const Grid& grid) {
  std::vector<bool> is_larger;
  for (const auto& module : model->modules(i).of_parts)
    for (const nn::Parameter& parameter : nn::parameters_of(*module, model->stage(), {"tp"})) {
      if (parameter.is_buffer || parameter.tensor.dim() == 0) continue;
      int64_t place = 0, copies = 1;
      for (const std::string& axis : parameter.layout.axes(Kind::copied)) {
        const int size = parameter.layout.grid().axis_size(axis);
        place = place * size + grid.coordinate(axis);
        copies *= size;
      }
      is_larger.push_back(place < parameter.tensor.size(0) % copies);
    }
  return is_larger;
}

int64_t weights_of(const models::Model& model, size_t i) {
  int64_t elements = 0;
  for (const auto& module : model->modules(i).of_parts)
    for (const at::Tensor& weight : module->parameters()) elements += weight.numel();
  return elements;
}

Load load_of(const SegmentTrial& trial, const models::Model& model) {
  const LocalTokenRows& rows = trial.batch.pass.rows;
  std::vector<int64_t> numbers;
  if (rows) numbers = rows.all().lengths();
  // Ranks along tp may have other numbers of rows.
  for (const auto& [name, x] : trial.input.items()) numbers.push_back(x.numel());
  if (!rows) numbers.push_back(trial.batch.input.numel());
  if (trial.segment.output_shape) numbers.push_back(trial.segment.output_shape(model->stage(), rows).front());
  if (trial.order) {
    for (const Leaf& leaf : trial.order->leaves) numbers.insert(numbers.end(), {leaf.lane, leaf.tokens.begin});
    // The last one sums a rank's lanes; along tp ranks have other shares of sums, and the first sends those that all have.
    const auto rank = static_cast<size_t>(trial.grid.world().rank());
    for (const Range& lanes : trial.lanes->ranks[rank].held) numbers.insert(numbers.end(), {lanes.begin, lanes.end});
    numbers.push_back(trial.grid.coordinate("tp"));
  }
  // A program gets padded texts.
  return {trial.segment.with_input ? trial.batch.input.numel() : trial.batch.input.size(0),
          hash_of(std::span<const int64_t>(numbers))};
}

/// What is the same for all micro-batches: the segment's kind, and the rank's pieces of weights.
std::string name_of(const SegmentTrial& trial, const models::Model& model, size_t i) {
  std::string name = trial.segment.kind.empty() ? trial.segment.name : trial.segment.kind;
  for (const auto& module : model->modules(i).of_parts)
    for (const at::Tensor& weight : module->parameters()) name.append(" ").append(shape_text(weight.sizes().vec()));
  name += " of worker " + std::to_string(trial.batch.pass.rows.index());
  if (std::ranges::any_of(trial.input.items(), [](const auto& item) { return item.tensor.requires_grad(); }))
    name += ", with a gradient";
  if (trial.backward.splits) name += ", splits backward";
  return name;
}

/// A tensor of another shape.
at::Tensor like(const at::Tensor& x, const std::vector<int64_t>& shape) {
  return at::empty(shape, x.options()).requires_grad_(x.requires_grad());
}

}  // namespace

MeasuredSegments::MeasuredSegments(const Configuration& configuration, const Task& task, const Stages& stages,
                                   const SegmentClock& clock, KnownNeeds& known)
    : configuration_(configuration), task_(task), stages_(stages), clock_(clock), known_(known) {
  for (const auto& of_rank : stages.schedule.actions)
    for (const pipeline::Action& action : of_rank)
      if (action.kind == pipeline::Kind::input) split_.emplace(action.stage, action.micro_batch);
}

StageNeeds MeasuredSegments::needs(int stage, int number, const SegmentsOwner& owner, const OrderedBatch& ordered) {
  const auto& [batch, order] = ordered;
  const WithOrder with_order(order);
  const models::Model& model = owner.model;
  const bool splits = split_.contains({stage, number});
  const std::span segments = stages_.segments_of(stage);
  StageNeeds needs{stages_.place_of(stage)};
  parallel::Bundle input = stage == 0 ? parallel::Bundle() : arriving(stage - 1, owner, ordered);
  const bool keeps_gathered = shards_weights(configuration_) && stages_.backward_follows(stage, number);
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool is_last = i + 1 == segments.size();  // of the stage
    const std::set<std::string> earlier = order ? used_twice(*model, segments[i]) : summed_earlier(stage, i, splits);
    const SegmentTrial trial{
        .configuration = configuration_,
        .task = task_,
        .segment = segments[i],
        .grid = owner.grid,
        .batch = batch,
        .input = input,
        .calls = owner.calls,
        .order = order,
        .lanes = owner.lanes,
        .place = {.is_last = is_last && stage + 1 == stages_.count(), .holds_input = stage > 0 && i == 0},
        .backward = {
            .splits = splits, .follows = is_last && keeps_gathered, .summed = owner.summed, .summed_earlier = earlier}};
    needs.segments.push_back(&needs_of(trial, model, needs.first + i));
    input = needs.segments.back()->output;
    // The needs may have been measured with another micro-batch.
    if (segments[i].output_shape) input = like(input, segments[i].output_shape(model->stage(), batch.pass.rows));
  }
  return needs;
}

parallel::Bundle MeasuredSegments::arriving(int stage, const SegmentsOwner& owner, const OrderedBatch& ordered) {
  const auto& [batch, order] = ordered;
  const WithOrder with_order(order);
  const models::Segment& last = stages_.segments_of(stage).back();
  if (last.output_shape)
    return at::empty(last.output_shape(owner.model->stage(), batch.pass.rows),
                     at::device(at::kMeta).dtype(weight_type(configuration_.precision)))
        .requires_grad_(true);
  const auto [known, is_new] = arriving_.try_emplace(
      {stage, owner.grid.coordinate("replica"), owner.grid.coordinate("tp"), batch.input.numel()});
  if (!is_new) return known->second;
  parallel::Bundle x = stage == 0 ? parallel::Bundle() : arriving(stage - 1, owner, ordered);
  for (const models::Segment& segment : stages_.segments_of(stage))
    x = output_of({.configuration = configuration_,
                   .task = task_,
                   .segment = segment,
                   .grid = owner.grid,
                   .batch = batch,
                   .input = x,
                   .calls = owner.calls});
  return known->second = x;
}

/// The parts of a stage's segment that an earlier one names too: autograd sums their gradients before it passes them on, unless
/// one of the segments is recomputed; postponed gradients are summed in any case.
std::set<std::string> MeasuredSegments::summed_earlier(int stage, size_t segment, bool splits) const {
  std::set<std::string> parts;
  const std::span segments = stages_.segments_of(stage);
  const models::Segment& mine = segments[segment];
  if (!shards_weights(configuration_) || (mine.recomputes && !splits)) return parts;
  for (const models::Segment& other : segments.first(segment))
    for (const models::ModuleRecipe& part : other.parts)
      if ((splits || &other == &stages_.segments.front() || !other.recomputes) &&
          std::ranges::find(mine.parts, part.name, &models::ModuleRecipe::name) != mine.parts.end())
        parts.insert(part.name);
  return parts;
}

/// The parts of which a rank that has this segment sums gradients in lanes after the last backward.
std::set<std::string> MeasuredSegments::used_twice(const models::ModelImpl& model,
                                                   const models::Segment& segment) const {
  if (!shards_weights(configuration_)) return {};
  std::set<std::string> parts = models::shared_parts(model.segments());
  std::erase_if(parts, [&](const std::string& part) {
    return std::ranges::find(segment.parts, part, &models::ModuleRecipe::name) == segment.parts.end();
  });
  return parts;
}

const SegmentNeeds& MeasuredSegments::needs_of(const SegmentTrial& trial, const models::Model& model, size_t i) {
  const std::string name = name_of(trial, model, i);
  auto& of_loads = known_[{
      .layout = layout_of_needs(configuration_, trial.segment),
      .segment = name,
      .larger_shards = shards_weights(configuration_) ? larger_shards(model, i, trial.grid) : std::vector<bool>(),
      .of_trial = {trial.segment.recomputes, trial.place.holds_input, trial.backward.follows,
                   !trial.backward.summed_earlier.empty(), trial.order && trial.order->is_last}}];
  const Load load = load_of(trial, model);
  auto found = of_loads.find(load);
  if (found == of_loads.end() && of_loads.size() >= kMostMicroBatches) found = of_loads.lower_bound({load.first, 0});
  if (found != of_loads.end() && !clock_) return found->second;
  if (found == of_loads.end()) found = of_loads.emplace(load, measure(trial)).first;
  if (clock_)  // each time: it may know more than before
    found->second.seconds =
        clock_(trial, layout_of_seconds(configuration_) + name, found->first.first, weights_of(model, i));
  return found->second;
}

}  // namespace adjoin::plan
