#include "adjoin/task/task.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/task/grid_sizes.hpp"

namespace adjoin::train {

namespace {

void require_rows(const MicroBatch& batch, int64_t cp) {
  require(bool(batch.pass.rows),
          [&] { return "--cp " + std::to_string(cp) + ": the rows of this task are not the tokens of samples"; });
}

/// Leaves of a micro-batch the rows of one rank along cp.
void share_rows(MicroBatch& batch, const Task& task, const Communicator& cp) {
  require_rows(batch, cp.size());
  const std::vector<int64_t>& lengths = batch.pass.rows.all().lengths();
  const auto order = FixedOrder::current();
  const TokenRows rows = order ? TokenRows::in_blocks(lengths, order->blocks) : task.split_rows(lengths, cp.size());
  const Split shares = samples_of_ranks(std::ssize(lengths), cp.size());
  batch.input = take_block(batch.input, rows.split(), cp.rank());
  batch.target = take_block(batch.target, batch.pass.step.loss_share_is_per_token ? rows.split() : shares, cp.rank());
  batch.pass.rows = LocalTokenRows(rows, cp.rank());
  batch.tokens = batch.input.size(0);
}

}  // namespace

std::vector<nn::Parameter> parameters_of(const models::Model& model) {
  return nn::parameters_of(*model, model->stage(), {"tp"});
}

models::Model described_model(const Task& task) {
  const Grid one_worker(Communicator(), GridSizes().shape());
  return models::Model(task.segments(), one_worker.at("pp", 0), at::TensorOptions(at::kMeta));
}

data::BatchPart part_of_batch(const Task& task, int64_t samples, const Grid& grid, int number, int count) {
  const Communicator& parts = batch_ranks(grid);
  const data::BatchPart all{0, samples};
  return task.is_computed_together() ? data::part_of(data::part_of(all, number, count), parts.rank(), parts.size())
                                     : data::part_of(data::part_of(all, parts.rank(), parts.size()), number, count);
}

MicroBatch micro_batch_of(const Task& task, data::Part part, std::span<const int64_t> samples,
                          const data::BatchPart& mine, Step step, const at::TensorOptions& tensor, const Grid& grid) {
  const Communicator& cp = grid.axis("cp");
  step.loss_share_is_per_token = task.output_is_per_token();
  MicroBatch batch = task.micro_batch(part, samples, mine, step);
  for (at::Tensor* x : {&batch.input, &batch.target})
    if (x->defined() && x->is_floating_point()) *x = x->to(c10::typeMetaToScalarType(tensor.dtype()));
  const auto order = FixedOrder::current();
  if (cp.size() > 1 || (order && order->numbers.tokens > 1)) share_rows(batch, task, cp);
  if (batch.input.defined()) batch.input = batch.input.to(tensor.device());
  return batch;
}

at::Tensor loss_of(const Task& task, const at::Tensor& output, const MicroBatch& batch, const Grid& grid) {
  const int cp = grid.axis("cp").size();
  const auto rows = [](const at::Tensor& tensor) { return tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : -1; };
  require(cp == 1 || rows(batch.target) < 0 || rows(output) == rows(batch.target), [&] {
    return "--cp " + std::to_string(cp) + ": the task's output has " + std::to_string(rows(output)) +
           " rows on this rank and its target " + std::to_string(rows(batch.target)) + ", one for each " +
           (task.output_is_per_token() ? "token" : "sample") + " of this rank";
  });
  MicroBatch there = batch;
  if (there.target.defined()) there.target = there.target.to(output.device());
  return task.loss(output, there, grid);
}

void check_output_shape(const models::Segment& segment, const at::Tensor& output, const Grid& stage,
                        const LocalTokenRows& rows) {
  if (!segment.output_shape) return;
  const std::vector<int64_t> said = segment.output_shape(stage, rows);
  require(output.sizes() == at::IntArrayRef(said), [&] {
    return "the model's segment " + segment.name + " says that its output has the shape " + shape_text(said) +
           ", and it has " + shape_text(output.sizes().vec());
  });
}

void check_rows(const Configuration& c, const Task& task) {
  if (c.task.empty() || c.cp == 1 || task.size(data::Part::train) == 0) return;
  const MicroBatch first = task.micro_batch(data::Part::train, std::vector<int64_t>{0}, {0, 1}, {.training = true});
  require_rows(first, c.cp);
  std::vector<int64_t> lengths = task.lengths(data::Part::train);
  if (lengths.empty()) lengths = first.pass.rows.all().lengths();
  const int64_t longest = std::ranges::max(lengths);
  require(longest >= c.cp, [&] {
    return "--cp " + std::to_string(c.cp) + " is more than the " + counted(longest, "row") +
           " of the task's longest sample: a context-parallel rank needs at least one row";
  });
}

models::TokenRowOptions row_options(const Configuration& c) {
  return {.split = c.sp,
          .axis = c.cp > 1 ? "cp" : "",
          .method = c.cp == 1 ? nn::AttentionMethod::ring : c.cp_method,  // all are equal on one worker
          .recompute_attention = c.recompute == Recompute::attention && keeps_scores(c)};
}

models::ExpertOptions expert_options(const Configuration& c) {
  models::ExpertOptions experts = c.experts;
  if (experts.top_k == 0) experts.top_k = std::min<int64_t>(2, experts.count);
  return experts;
}

std::string content_of_file(const Task& task, std::string_view name) {
  for (const TaskFile& file : task.files())
    if (file.name == name) return file.content;
  return "";
}

void Task::read_test(const TextSource& source) {
  throw InvalidArgument("--data " + source.data + ": the model's task reads only its own data");
}

void Task::take_texts(std::span<const std::string>) {
  throw InvalidArgument("the model's task does not read texts");
}

std::vector<Prediction> Task::predictions(const at::Tensor&, const MicroBatch&, const Grid&) const {
  throw InvalidArgument("the model's task does not predict single samples");
}

nlohmann::ordered_json Task::details(std::span<const double>) const {
  return nlohmann::ordered_json::object();
}

}  // namespace adjoin::train
