#include "adjoin/parallel/pipelined.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/pipeline.hpp"
#include "adjoin/pipeline/balanced_stages.hpp"

namespace adjoin::parallel {
namespace {

/// The name of the last tensor between stages: the global sizes of the others, one after another.
constexpr auto kSizes = "global sizes";

/// All names of each tensor of a module, where several members share it.
std::map<const c10::TensorImpl*, std::vector<std::string>> names_in(const torch::nn::Module& module) {
  std::map<const c10::TensorImpl*, std::vector<std::string>> names;
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()})
    for (const auto& item : tensors) names[item.value().unsafeGetTensorImpl()].push_back(item.key());
  return names;
}

/// For each child, the places of its weights among the tensors of a module.
/// Throws: InvalidArgument for a pattern that names none
std::vector<std::set<size_t>> weights_of(const std::vector<Child>& children, const torch::nn::Module& module,
                                         const std::vector<NamedTensor>& tensors) {
  const auto names = names_in(module);
  std::vector<std::set<size_t>> weights;
  for (const Child& child : children) {
    std::set<size_t>& of_child = weights.emplace_back();
    const auto take = [&](const std::string& pattern) {
      bool names_one = false;
      for (size_t i = 0; i < tensors.size(); ++i)
        for (const std::string& name : names.at(tensors[i].tensor.unsafeGetTensorImpl()))
          if (pattern_names(pattern, name)) of_child.insert(i), names_one = true;
      return names_one;
    };
    if (child.weights.empty()) take(child.name + ".*");
    for (const std::string& pattern : child.weights)
      require(take(pattern), [&] {
        return "Pipelined: expected patterns that name weights, got \"" + pattern + "\" of " + child.name +
               ", which names none";
      });
  }
  return weights;
}

/// The children's costs; if none says one, the elements of their weights.
std::vector<double> costs_of(const std::vector<Child>& children, const std::vector<std::set<size_t>>& weights,
                             const std::vector<NamedTensor>& tensors) {
  std::vector<double> costs, elements;
  for (size_t i = 0; i < children.size(); ++i) {
    costs.push_back(children[i].cost);
    double& sum = elements.emplace_back(0);
    for (const size_t weight : weights[i]) sum += static_cast<double>(tensors[weight].tensor.numel());
  }
  return std::ranges::any_of(costs, [](double cost) { return cost > 0; }) ? costs : elements;
}

}  // namespace

std::vector<Child> children_of(const std::string& name, const torch::nn::Sequential& list) {
  std::vector<Child> children;
  const auto modules = list->named_children();
  for (const torch::nn::AnyModule& module : *list)
    children.push_back({(name.empty() ? "" : name + ".") + modules[children.size()].key(),
                        [module = torch::nn::AnyModule(module)](const Bundle& x) mutable {
                          const Bundle::Item& first = x.items().at(0);
                          return x.with(first.name, module.forward<at::Tensor>(first.tensor));
                        }});
  return children;
}

Grid as_world(const Grid& part) {
  std::vector<std::string> axes;
  for (const GridShape::Axis& axis : part.shape().axes()) axes.push_back(axis.name);
  return {part.group(axes), part.shape().axes()};
}

Bundle for_next_stage(const Bundle& tensors, const Grid& stage, const LayoutBetween& between) {
  std::vector<Bundle::Item> pieces;
  std::vector<int64_t> all_sizes;
  const std::shared_ptr<GlobalGrid> home = global_grid(stage);
  for (const auto& [name, tensor] : tensors.items()) {
    const std::vector<int64_t> sizes = tensor.sizes().vec();
    pieces.push_back({name, moved(tensor, home->interned(between(sizes)), *home)});
    all_sizes.insert(all_sizes.end(), sizes.begin(), sizes.end());
  }
  pieces.push_back({kSizes, at::tensor(all_sizes)});
  return pieces;
}

Bundle from_previous_stage(const Bundle& pieces, const Grid& stage, const LayoutBetween& between) {
  const at::Tensor& all_sizes = pieces[kSizes];
  const int64_t* next = all_sizes.const_data_ptr<int64_t>();
  std::vector<Bundle::Item> tensors;
  for (const auto& [name, piece] : pieces.items()) {
    if (name == kSizes) break;
    const std::vector<int64_t> sizes(next, next + piece.dim());
    next += piece.dim();
    tensors.push_back({name, global({piece, between(sizes), stage})});
  }
  return tensors;
}

Pipelined::Pipelined(const torch::nn::Module& module, std::vector<Child> children, const Grid& grid,
                     pipeline::Schedule schedule, PipelinedOptions options)
    : children_(std::move(children)),
      schedule_(std::move(schedule)),
      grid_(grid),
      stage_(as_world(grid.at(options.axis, grid.coordinate(options.axis)))),
      options_(std::move(options)) {
  const std::vector<NamedTensor> tensors = tensors_of(module);
  const std::vector<std::set<size_t>> of_children = weights_of(children_, module, tensors);
  cut_into_stages(costs_of(children_, of_children, tensors));
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::set<int> held_at;
    for (size_t child = 0; child < children_.size(); ++child)
      if (of_children[child].contains(i)) held_at.insert(coordinate_of(child));
    require(!held_at.empty(),
            [&] { return "Pipelined: expected a child that names the weight " + tensors[i].name + ", got none"; });
    weights_.push_back({tensors[i], {held_at.begin(), held_at.end()}});
  }
  check_patterns(options_.cuts, tensors);
  for (const CutText& cut : options_.cuts.inputs) cut_layout(cut, {}, stage_.shape(), Kind::replicated);
  between({});
  keep_own_weights();
}

void Pipelined::cut_into_stages(const std::vector<double>& costs) {
  const int ranks = grid_.shape().axis_size(options_.axis);
  require(schedule_.ranks() == ranks, [&] {
    return "Pipelined: expected a schedule of " + std::to_string(ranks) + " ranks, got one of " +
           std::to_string(schedule_.ranks());
  });
  for (int rank = 0; rank < ranks; ++rank)
    require(std::ranges::count(schedule_.rank_of, rank) > 0,
            [&] { return "Pipelined: expected a stage for each rank, got none for rank " + std::to_string(rank); });
  const std::vector<int> sizes =
      options_.sizes.empty() ? pipeline::balanced_stages(costs, schedule_.stages) : options_.sizes;
  const auto is_positive = [](int size) { return size > 0; };
  require(std::ssize(sizes) == schedule_.stages && std::ranges::all_of(sizes, is_positive) &&
              std::accumulate(sizes.begin(), sizes.end(), size_t{0}) == children_.size(),
          [&] {
            return "Pipelined: expected " + counted(schedule_.stages, "size") + " of stages with " +
                   counted(std::ssize(children_), "child", "children") + " in all, got " + joined(sizes);
          });
  size_t end = 0;
  for (const int size : sizes) ends_.push_back(end += static_cast<size_t>(size));
}

void Pipelined::keep_own_weights() {
  const Grid here = grid_.at(options_.axis, grid_.coordinate(options_.axis));
  for (const Weight& weight : weights_)
    parameters_.push_back(
        {weight.named.name, weight.named.tensor, layout_of(weight), here, std::nullopt, weight.named.is_buffer});

  const at::NoGradGuard no_gradient;
  std::vector<std::string> axes;
  for (const GridShape::Axis& axis : grid_.shape().axes()) axes.push_back(axis.name);
  const Communicator& all = grid_.group(axes);
  std::vector<NamedTensor> own;
  for (const Weight& weight : weights_) {
    const at::Tensor& tensor = weight.named.tensor;
    const at::Tensor value = tensor.detach().contiguous();
    all.broadcast(buffer_of_reals(value), /*root=*/0);
    if (is_here(weight)) {
      tensor.detach().copy_(value);
      own.push_back(weight.named);
    } else {
      tensor.set_data(at::empty({0}, value.options()));
    }
  }
  Cuts cuts = options_.cuts;
  std::erase_if(cuts.weights, [&](const auto& cut) {
    return std::ranges::none_of(own, [&](const auto& named) { return pattern_names(cut.first, named.name); });
  });
  here_ = std::make_unique<Distributed>(own, stage_, std::move(cuts));
  auto piece = here_->parameters().begin();
  for (size_t i = 0; i < weights_.size(); ++i)
    if (is_here(weights_[i])) parameters_[i].tensor = (piece++)->tensor;
}

/// On the ranks of the stages that have it. These use it for their own parts of the work.
Layout Pipelined::layout_of(const Weight& weight) const {
  const int stage = is_here(weight) ? grid_.coordinate(options_.axis) : weight.held_at.front();
  const Layout layout = layout_by(options_.cuts, weight.named, grid_.shape().at(options_.axis, stage));
  return weight.held_at.size() == 1 ? layout
                                    : layout.on(grid_.shape().among(options_.axis, weight.held_at), Kind::copied);
}

double Pipelined::run(const Step& step, const std::vector<Bundle>& micro_batches, const Loss& loss) {
  const auto count = static_cast<int>(micro_batches.size());
  const bool trains = at::GradMode::is_enabled();
  require(!trains || count == schedule_.micro_batches, [&] {
    return "Pipelined: expected " + counted(schedule_.micro_batches, "micro-batch", "micro-batches") + ", got " +
           std::to_string(count);
  });
  double sum = 0;
  const LayoutBetween between = [this](const std::vector<int64_t>& sizes) { return this->between(sizes); };
  const auto forward = [&](int stage, int micro_batch, const Bundle& received) {
    const Bundle& given = micro_batches[static_cast<size_t>(micro_batch)];
    Bundle x = stage == 0 ? input_of(given) : from_previous_stage(received, stage_, between);
    for (size_t child = first_of(stage); child < ends_[static_cast<size_t>(stage)]; ++child) {
      const auto& [name, forward, weights, cost, with_micro_batch, draws_before] = children_[child];
      const int64_t counted = micro_batch * std::ssize(children_) + static_cast<int64_t>(child);
      here_->begin(step, draws_before ? micro_batch * kMostDraws + *draws_before : counted * kMostDraws);
      const auto alike = here_->draw_alike();
      x = with_micro_batch ? with_micro_batch(x, input_of(given)) : forward(x);
    }
    return stage + 1 == schedule_.stages ? x : for_next_stage(x, stage_, between);
  };
  const auto loss_of = [&](int micro_batch, const Bundle& output) {
    const at::Tensor found = loss(micro_batch, output);
    if (!found.defined()) return found;
    const at::Tensor here = whole(found);
    sum += here.item<double>();
    return here;
  };
  const std::vector<Weight> shared = trains && !gives_pieces_ ? shared_here() : std::vector<Weight>();
  std::vector<at::Tensor> before;
  for (const Weight& weight : shared) before.push_back(std::exchange(weight.named.tensor.mutable_grad(), {}));
  const Communicator& ranks = grid_.axis(options_.axis);
  run_pipeline(trains ? schedule_ : pipeline::forward_only(schedule_, count), ranks,
               {.forward = forward, .loss = loss_of});
  for (size_t i = 0; i < shared.size(); ++i) sum_over_stages(shared[i].named.tensor, shared[i].held_at, before[i]);
  ranks.broadcast(buffer(sum), schedule_.rank_of.back());
  return sum;
}

Bundle Pipelined::input_of(const Bundle& micro_batch) const {
  std::vector<Bundle::Item> input;
  for (const auto& [name, tensor] : micro_batch.items()) input.push_back({name, here_->input(tensor, input.size())});
  return input;
}

/// Of a tensor of these global sizes. Replicated where it is not cut: all of these ranks go on with it alike.
Layout Pipelined::between(const std::vector<int64_t>& sizes) const {
  const std::vector<CutText>& inputs = options_.cuts.inputs;
  return cut_layout(options_.between.value_or(inputs.empty() ? "" : inputs[0]), sizes, stage_.shape(),
                    Kind::replicated);
}

/// The weights here that require a gradient and that other ranks of the pipeline have too.
std::vector<Pipelined::Weight> Pipelined::shared_here() const {
  std::vector<Weight> shared;
  for (const Weight& weight : weights_)
    if (is_here(weight) && weight.held_at.size() > 1 && weight.named.tensor.requires_grad()) shared.push_back(weight);
  return shared;
}

/// Of a gradient, what this step added is summed over the stages that have the weight.
void Pipelined::sum_over_stages(const at::Tensor& weight, const std::vector<int>& held_at,
                                const at::Tensor& before) const {
  const at::NoGradGuard no_gradient;
  at::Tensor& gradient = weight.mutable_grad();
  if (!gradient.defined()) gradient = at::zeros_like(weight);
  const DistributedTensor here = local_of(gradient);
  const at::Tensor piece = here.local.contiguous();
  const std::vector<int> along = grid_.shape().ranks_along(grid_.world().rank(), {options_.axis});
  std::vector<int> holders;
  for (const int coordinate : held_at) holders.push_back(along[static_cast<size_t>(coordinate)]);
  grid_.group_of(holders).all_reduce(buffer_of_reals(piece));
  gradient = global({piece, stored(here.layout), here.grid});
  if (before.defined()) gradient = gradient + before;
}

std::vector<at::Tensor> Pipelined::weights() const {
  std::vector<at::Tensor> weights;
  for (const Weight& weight : weights_)
    if (is_here(weight) && weight.named.tensor.requires_grad()) weights.push_back(weight.named.tensor);
  return weights;
}

std::vector<nn::Parameter> Pipelined::trained() {
  gives_pieces_ = true;
  here_->trained();
  std::vector<nn::Parameter> trained;
  for (const nn::Parameter& parameter : parameters_)
    if (parameter.tensor.requires_grad()) trained.push_back(parameter);
  return trained;
}

std::string Pipelined::to_string() const {
  std::string text;
  for (int stage = 0; stage < schedule_.stages; ++stage) {
    const size_t first = first_of(stage), last = ends_[static_cast<size_t>(stage)] - 1;
    text += "stage " + std::to_string(stage) + " on " + options_.axis + " " + std::to_string(coordinate_of(first)) +
            ": " + children_[first].name + (first == last ? "" : " to " + children_[last].name) + "\n";
  }
  return text;
}

int Pipelined::coordinate_of(size_t child) const {
  const auto stage = std::ranges::upper_bound(ends_, child) - ends_.begin();
  return schedule_.rank_of[static_cast<size_t>(stage)];
}

bool Pipelined::is_here(const Weight& weight) const {
  return std::ranges::binary_search(weight.held_at, grid_.coordinate(options_.axis));
}

}  // namespace adjoin::parallel
