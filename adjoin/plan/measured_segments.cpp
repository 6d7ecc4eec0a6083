#include "adjoin/plan/measured_segments.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>

#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/train/trainer.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

// The most different micro-batches that are run for each segment.
constexpr size_t kMostMicroBatches = 16;

/// What a segment's needs depend on besides what its name says.
std::vector<int64_t> layout_of_needs(const Configuration& c) {
  std::vector<int64_t> numbers{c.ep, c.cp, c.tp, c.sp ? 1 : 0, c.zero, c.microbatches > 1 ? 1 : 0};
  numbers.insert(numbers.end(), {static_cast<int64_t>(row_options(c).method), static_cast<int64_t>(c.recompute)});
  if (c.ep > 1 || c.zero > 1) numbers.insert(numbers.end(), {c.dp, c.pp});
  return numbers;
}

/// The same for its time, which communication does not affect.
std::string layout_of_seconds(const Configuration& c) {
  const std::vector<int64_t> numbers{c.ep, c.cp, c.tp, c.sp ? 1 : 0, c.microbatches > 1 ? 1 : 0};
  return joined(numbers, " ") + (c.cp > 1 ? " " + text_of("cp_method", c) : "") +
         (c.recompute == Recompute::attention ? " attention again" : "") + ": ";
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

Load load_of(const models::Model& model, size_t i, const MicroBatch& batch, const at::Tensor& input) {
  const int64_t rows = batch.input.size(0);
  std::vector<int64_t> numbers;
  if (batch.pass.rows) numbers = batch.pass.rows.all().lengths();
  // Ranks along tp may have other numbers of rows.
  if (input.defined()) numbers.push_back(input.numel());
  if (const models::Segment& segment = model->segments()[i]; segment.output_shape)
    numbers.push_back(segment.output_shape(model->stage(), batch.pass.rows).front());
  return {rows, hash_of(std::span<const int64_t>(numbers))};
}

}  // namespace

struct MeasuredSegments::Given {
  const SegmentsOwner& owner;
  const MicroBatch& batch;
  at::Tensor input;
  bool is_last, is_first;  // is_last: in the model; is_first: in a stage that receives its input
  bool splits;             // gradients of weights are computed later
  bool backward_follows;
  const std::set<std::string>& summed_earlier;
};

MeasuredSegments::MeasuredSegments(const Configuration& configuration, const Task& task, const Stages& stages,
                                   const SegmentClock& clock, KnownNeeds& known)
    : configuration_(configuration),
      task_(task),
      stages_(stages),
      segments_(segments_of(configuration, task)),
      clock_(clock),
      known_(known) {
  for (const auto& of_rank : stages.schedule.actions)
    for (const pipeline::Action& action : of_rank)
      if (action.kind == pipeline::Kind::input) split_.emplace(action.stage, action.micro_batch);
}

StageNeeds MeasuredSegments::needs(int stage, int number, const SegmentsOwner& owner, const MicroBatch& batch) {
  const models::Model& model = owner.model;
  const bool splits = split_.contains({stage, number});
  const Range range = stages_.segments[static_cast<size_t>(stage)];
  StageNeeds needs{stages_.place_of(stage)};
  at::Tensor input = stage == 0 ? at::Tensor() : arriving(static_cast<size_t>(range.begin) - 1, model, batch);
  const bool keeps_gathered = shards_weights(configuration_) && stages_.backward_follows(stage, number);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const std::set<std::string> earlier = summed_earlier(range.begin, i, splits);
    const bool is_last = i + 1 == std::ssize(segments_);
    needs.segments.push_back(&needs_of(needs.first + static_cast<size_t>(i - range.begin),
                                       {owner, batch, input, is_last, stage > 0 && i == range.begin, splits,
                                        i + 1 == range.end && keeps_gathered, earlier}));
    input = needs.segments.back()->output;
    // The needs may have been measured with another micro-batch.
    if (const models::Segment& segment = segments_[static_cast<size_t>(i)]; segment.output_shape)
      input = at::empty(segment.output_shape(model->stage(), batch.pass.rows), input.options())
                  .requires_grad_(input.requires_grad());
  }
  return needs;
}

at::Tensor MeasuredSegments::arriving(size_t segment, const models::Model& model, const MicroBatch& batch) const {
  return at::empty(segments_[segment].output_shape(model->stage(), batch.pass.rows),
                   tensor_options(configuration_).device(at::kMeta))
      .requires_grad_(true);
}

/// The parts of a segment that an earlier segment of its stage names too: autograd sums their gradients before it passes them
/// on, unless one of the segments is recomputed; postponed gradients are summed in any case.
std::set<std::string> MeasuredSegments::summed_earlier(int64_t first, int64_t segment, bool splits) const {
  std::set<std::string> parts;
  const models::Segment& mine = segments_[static_cast<size_t>(segment)];
  if (!shards_weights(configuration_) || (mine.recomputes && !splits)) return parts;
  for (int64_t i = first; i < segment; ++i) {
    const models::Segment& other = segments_[static_cast<size_t>(i)];
    for (const models::ModuleRecipe& part : other.parts)
      if ((splits || i == 0 || !other.recomputes) &&
          std::ranges::find(mine.parts, part.name, &models::ModuleRecipe::name) != mine.parts.end())
        parts.insert(part.name);
  }
  return parts;
}

const SegmentNeeds& MeasuredSegments::needs_of(size_t i, const Given& given) {
  const models::Model& model = given.owner.model;
  const models::Segment& segment = model->segments()[i];
  const std::string name = name_of(i, given);
  auto& of_loads = known_[{
      .layout = layout_of_needs(configuration_),
      .segment = name,
      .larger_shards = shards_weights(configuration_) ? larger_shards(model, i, given.owner.grid) : std::vector<bool>(),
      .recomputes = static_cast<bool>(segment.recomputes),
      .holds_input = given.is_first,
      .backward_follows = given.backward_follows,
      .is_summed_earlier = !given.summed_earlier.empty()}];
  const Load load = load_of(model, i, given.batch, given.input);
  auto found = of_loads.find(load);
  if (found == of_loads.end() && of_loads.size() >= kMostMicroBatches) found = of_loads.lower_bound({load.first, 0});
  if (found != of_loads.end() && !clock_) return found->second;
  const SegmentTrial trial{.configuration = configuration_,
                           .task = task_,
                           .segment = segment,
                           .grid = given.owner.grid,
                           .batch = given.batch,
                           .input = given.input,
                           .is_last = given.is_last,
                           .holds_input = given.is_first,
                           .splits_backward = given.splits,
                           .summed = given.owner.summed,
                           .backward_follows = given.backward_follows,
                           .summed_earlier = given.summed_earlier,
                           .calls = given.owner.calls};
  if (found == of_loads.end()) found = of_loads.emplace(load, measure(trial)).first;
  if (clock_)  // each time: it may know more than before
    found->second.seconds =
        clock_(trial, layout_of_seconds(configuration_) + name, found->first.first, weights_of(model, i));
  return found->second;
}

/// What is the same for all micro-batches: the segment's kind, and the rank's pieces of weights.
std::string MeasuredSegments::name_of(size_t i, const Given& given) const {
  const models::Model& model = given.owner.model;
  const models::Segment& segment = model->segments()[i];
  std::string name = segment.kind.empty() ? segment.name : segment.kind;
  for (const auto& module : model->modules(i).of_parts)
    for (const at::Tensor& weight : module->parameters()) name.append(" ").append(shape_text(weight.sizes().vec()));
  name += " of worker " + std::to_string(given.batch.pass.rows.index());
  if (given.input.defined() && given.input.requires_grad()) name += ", with a gradient";
  if (given.splits) name += ", splits backward";
  return name;
}

}  // namespace adjoin::plan
