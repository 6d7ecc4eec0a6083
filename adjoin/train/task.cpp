#include "adjoin/train/task.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/blocks.hpp"
#include "adjoin/train/grid_sizes.hpp"

namespace adjoin::train {

std::vector<nn::Parameter> parameters_of(const models::Model& model) {
  return nn::parameters_of(*model, model->stage(), {"tp"});
}

models::Model described_model(const Task& task) {
  const Grid one_worker(Communicator(), GridSizes().shape());
  return models::Model(task.segments(), one_worker.at("pp", 0), at::TensorOptions(at::kMeta));
}

MicroBatch context_parallel_part(MicroBatch batch, const Task& task, const Communicator& cp) {
  if (cp.size() == 1) return batch;
  require(bool(batch.pass.rows), [&] {
    return "--cp " + std::to_string(cp.size()) + ": the rows of this task are not the tokens of samples";
  });
  const std::vector<int64_t>& lengths = batch.pass.rows.all().lengths();
  const Rows rows = task.split_rows(lengths, cp.size());
  const Split samples = Split::balanced(std::ssize(lengths), cp.size(), 0);
  batch.input = take_block(batch.input, rows.split(), cp.rank());
  batch.target = take_block(batch.target, batch.output_is_per_token ? rows.split() : samples, cp.rank());
  batch.pass.rows = LocalRows(rows, cp.rank());
  batch.tokens = batch.input.size(0);
  return batch;
}

models::RowOptions row_options(const Configuration& c) {
  return {.split = c.sp,
          .axis = c.cp > 1 ? "cp" : "",
          .method = c.cp == 1 || c.cp_method == "ring" ? nn::AttentionMethod::ring  // equal on one worker
                    : c.cp_method == "ulysses"         ? nn::AttentionMethod::ulysses
                                                       : nn::AttentionMethod::gathered,
          .recompute_attention = c.recompute == "attention" && keeps_scores(c)};
}

models::ExpertOptions expert_options(const Configuration& c) {
  return {.experts = c.experts,
          .top_k = c.top_k > 0 ? c.top_k : std::min<int64_t>(2, c.experts),
          .every = c.moe_every,
          .normalises_gates = c.normalise_gates,
          .balance_loss = c.balance_loss,
          .z_loss = c.z_loss,
          .axis = "ep"};
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
