#include "adjoin/tensors/program_on_rank.hpp"

#include <ATen/Context.h>

#include <mutex>
#include <utility>

#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/tensors/samples_of_ranks.hpp"

namespace adjoin::train {
namespace {

const at::Tensor& chosen(const parallel::Bundle& results, const std::string& output) {
  return results.size() == 1 ? static_cast<const at::Tensor&>(results) : results[output];
}

}  // namespace

void ProgramPieces::add(const std::string& name, const nn::Parameter& parameter) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) {
    register_piece(name, {parameter.layout, parameter.grid, nn::Initial::zeros()}, parameter.tensor.options(),
                   parameter.is_buffer) = parameter.tensor;
    return;
  }
  std::shared_ptr<ProgramPieces>& child = children_[name.substr(0, dot)];
  if (!child) child = register_module(name.substr(0, dot), std::make_shared<ProgramPieces>());
  child->add(name.substr(dot + 1), parameter);
}

ProgramOnRank::Part::Part(std::shared_ptr<ProgramOnRank> rank, const std::vector<parallel::NamedTensor>& tensors,
                          const Grid& place, const parallel::Cuts& cuts, bool shards)
    : rank_(std::move(rank)) {
  if (rank_->is_plain) {
    for (const auto& [name, tensor, is_buffer] : tensors)
      add(name, {name, tensor, Layout(place.shape(), tensor.sizes().vec()), place, {}, is_buffer});
    return;
  }
  model_.emplace(tensors, rank_->grid, cuts);
  for (nn::Parameter parameter :
       shards ? (model_->shards(), model_->parameters()) : (model_->trained(), model_->parameters())) {
    parameter.layout = parameter.layout.on(place.shape(), Kind::copied);
    parameter.grid = place;
    add(parameter.name, parameter);
  }
}

parallel::Bundle ProgramOnRank::run(size_t stage, const models::Modules& modules, const parallel::Bundle& received,
                                    const std::vector<at::Tensor>& inputs, const Step& step,
                                    const std::string& output) {
  net->train(step.training);
  if (is_plain) return run_plain(inputs, step, output);
  const SamplesOfRanks samples(inputs.front().size(0), step.first_sample, grid.axis("replica"));
  const auto layout = [&](const std::vector<int64_t>& shape) { return samples.layout(shape, grid.shape()); };
  const parallel::Child& child = stages[stage];
  const Step drawn{.seed = step.seed, .number = step.number, .training = step.training};
  const std::shared_ptr<GlobalGrid> home = global_grid(grid);
  home->step = drawn;
  home->drawn = samples.first * parallel::kMostDraws + *child.draws_before;
  for (size_t part = 0; part < modules.of_parts.size(); ++part) modules.as<Part>(part).begin(drawn, home->drawn);
  const DrawsAlike alike(home);
  std::vector<parallel::Bundle::Item> all;
  for (const at::Tensor& input : inputs) {
    std::vector<int64_t> shape = input.sizes().vec();
    shape[0] = samples.all;
    all.push_back({std::to_string(all.size()), global({input, layout(shape), grid})});
  }
  const parallel::Bundle results = child.with_micro_batch(
      stage == 0 ? parallel::Bundle() : parallel::from_previous_stage(received, grid, layout), all);
  if (stage + 1 < stages.size()) return parallel::for_next_stage(results, grid, layout);
  const at::Tensor& result = chosen(results, output);
  const std::vector<int64_t> shape = result.sizes().vec();
  const bool has_samples = result.dim() > 0 && result.size(0) == samples.all;
  return moved(
      result,
      home->interned(has_samples ? layout(shape) : Layout(grid.shape(), shape, {}, {{"replica", Kind::copied}})),
      *home);
}

at::Tensor ProgramOnRank::run_plain(const std::vector<at::Tensor>& inputs, const Step& step,
                                    const std::string& output) {
  if (step.training && !is_seeded) {
    is_seeded = true;
    at::Generator generator = at::globalContext().defaultGenerator(inputs.front().device());
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(step.seed);
  }
  return chosen(net->run({inputs.begin(), inputs.end()}), output);
}

}  // namespace adjoin::train
