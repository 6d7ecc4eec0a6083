#include "adjoin/parallel/sharded_sequential.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/lbfgs.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/parallel/gradient_hook.hpp"

namespace adjoin::parallel {

ShardedSequential::ShardedSequential(const torch::nn::Sequential& module, const Communicator& group)
    : module_(module.ptr()), grid_(group, {{"dp", group.size()}}) {
  require(module_->size() > 0, "ShardedSequential: expected at least 1 child, got none");
  for (const auto& own : module_->named_parameters(/*recurse=*/false))
    throw InvalidArgument("ShardedSequential: expected every parameter to belong to a child, got '" + own.key() +
                          "', which belongs to the Sequential itself");
  std::vector<nn::Parameter> whole = nn::parameters_of(*module_, grid_);
  for (nn::Parameter& parameter : whole) {
    require(std::ssize(nn::ranks_of_copies(parameter)) == group.size(), [&] {
      return "ShardedSequential: '" + parameter.name + "' does not have a copy on every rank of the group";
    });
    require(!is_trained(parameter) || !GradientHook::is_on(parameter.tensor),
            [&] { return "ShardedSequential: another object already sums the gradients of '" + parameter.name + "'"; });
    parameter.initial.reset();  // so that rank 0's values are used
    if (!parameter.is_buffer && !is_trained(parameter)) frozen_.emplace_back(parameter.name, parameter.tensor);
  }
  check_same_module(whole, "ShardedSequential", group);

  std::map<const void*, std::shared_ptr<WeightShards>> owner_of;  // by tensor
  auto next = whole.begin();
  for (const auto& child : module_->named_children()) {
    const auto begin = std::exchange(
        next, std::find_if(next, whole.end(), [prefix = child.key() + "."](const nn::Parameter& parameter) {
          return !parameter.name.starts_with(prefix);
        }));
    if (begin != next) {
      const std::vector<nn::Parameter> mine(begin, next);
      const auto shards = children_.emplace_back(std::make_shared<WeightShards>(mine, /*of_any_module=*/true));
      for (const nn::Parameter& parameter : mine) owner_of.emplace(parameter.tensor.unsafeGetTensorImpl(), shards);
      parameters_.insert(parameters_.end(), shards->parameters().begin(), shards->parameters().end());
    }
    std::vector<std::shared_ptr<WeightShards>> used;  // including those of previous children, where weights are tied
    for (const at::Tensor& tensor : child.value()->parameters()) {
      const auto& owner = owner_of.at(tensor.unsafeGetTensorImpl());
      if (std::ranges::find(used, owner) == used.end()) used.push_back(owner);
    }
    segments_.add(std::move(used));
  }
}

at::Tensor ShardedSequential::forward(at::Tensor x) {
  segments_.release();  // gathered by a forward that no backward followed
  size_t segment = 0;
  for (torch::nn::AnyModule& child : *module_) {
    const auto apply = [&](const at::Tensor& in) {
      torch::nn::AnyValue out = child.any_forward(in);
      const auto* tensor = out.try_get<at::Tensor>();
      require(tensor != nullptr, [&] {
        return "ShardedSequential: expected each child to return one tensor, but child " + std::to_string(segment) +
               ", a " + child.ptr()->name() + ", does not";
      });
      return *tensor;
    };
    x = segments_.run(segment, x, apply, /*backward_follows=*/segment + 1 == module_->size());
    ++segment;
  }
  if (x.requires_grad())
    x.register_hook([this](const at::TensorBase&) {
      require(
          runs_backward_,
          "ShardedSequential: call its backward(mean_loss, samples) instead of the loss's own backward, which gives "
          "the gradient of this rank's samples alone");
    });
  return x;
}

double ShardedSequential::backward(const at::Tensor& mean_loss, int64_t samples, Backward options) {
  require(samples >= 0,
          [&] { return "ShardedSequential::backward: expected 0 samples or more, got " + std::to_string(samples); });
  require(mean_loss.defined() && mean_loss.numel() == 1, [&] {
    return "ShardedSequential::backward: expected the mean loss, a single number, also for 0 samples, got " +
           (mean_loss.defined() ? c10::str(mean_loss.sizes()) : std::string("an undefined tensor"));
  });
  check_not_thawed();
  bool done = false;
  const auto end = c10::make_scope_exit([&] {
    runs_backward_ = false;
    segments_.release();
    if (done && !options.last) return;
    for (const auto& child : children_) child->forget_gradients();
    awaits_last_ = false;
    samples_ = 0;
    losses_ = 0;
  });
  const double mean = samples == 0 ? 0 : mean_loss.item().toDouble();
  samples_ += samples;
  losses_ += mean * static_cast<double>(samples);
  awaits_last_ = runs_backward_ = true;
  // All ranks run backward, also those without samples, as each reduce-scatter needs all of them.
  torch::autograd::backward({mean_loss}, {at::full_like(mean_loss, static_cast<double>(samples))});
  segments_.sum_gradients();
  double result = mean;
  if (options.last) {
    const Sums sums = sum_over_ranks();
    result = sums.samples > 0 ? sums.losses / sums.samples : 0;
    if (sums.samples > 0) {
      for (const auto& child : children_) child->take_gradients(1 / sums.samples);
      const double share = static_cast<double>(samples_) / sums.samples;
      join_buffers(*module_, share, sums.first_with_samples, grid_.world());
    }
  }
  done = true;
  return result;
}

void ShardedSequential::check_not_thawed() const {
  for (const auto& [name, tensor] : frozen_)
    require(!tensor.requires_grad(), [&, &parameter = name] {
      return "ShardedSequential: '" + parameter +
             "' did not require gradients when ShardedSequential was made, but does now: make a new ShardedSequential";
    });
}

ShardedSequential::Sums ShardedSequential::sum_over_ranks() const {
  std::array<double, 2> mine{static_cast<double>(samples_), losses_};
  const std::vector<int64_t> counts(static_cast<size_t>(grid_.world().size()), std::ssize(mine));
  std::vector<double> all(mine.size() * counts.size());
  grid_.world().all_gather(buffer(mine), buffer(all), counts);
  Sums sums{0, 0, -1};
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    sums.samples += all[2 * rank];
    sums.losses += all[2 * rank + 1];
    if (sums.first_with_samples < 0 && all[2 * rank] > 0) sums.first_with_samples = static_cast<int>(rank);
  }
  return sums;
}

Update ShardedSequential::step(torch::optim::Optimizer& optimizer, double clip) {
  require(dynamic_cast<torch::optim::LBFGS*>(&optimizer) == nullptr,
          "ShardedSequential::step: expected an optimizer that works element by element, got LBFGS, which needs whole "
          "gradients, while each rank has only shards");
  require(!awaits_last_,
          "ShardedSequential::step: expected a backward with last = true before it, got one with last = false");
  const std::vector<at::Tensor> known = shards();
  std::vector<at::Tensor> gradients;
  for (const torch::optim::OptimizerParamGroup& of_group : optimizer.param_groups())
    for (const at::Tensor& tensor : of_group.params()) {
      require(std::ranges::any_of(known, [&](const at::Tensor& shard) { return shard.is_same(tensor); }),
              "ShardedSequential::step: expected an optimizer of shards(), got one of other tensors");
      if (tensor.grad().defined()) gradients.push_back(tensor.grad());
    }
  const at::NoGradGuard no_gradient;
  std::array<double, 1> squares{};
  for (const at::Tensor& gradient : gradients)
    squares[0] += std::pow(at::linalg_vector_norm(gradient, 2, {}, false, at::kDouble).item<double>(), 2);
  grid_.world().all_reduce(buffer(squares));
  const Update update{.norm = std::sqrt(squares[0]), .skipped = !std::isfinite(squares[0])};
  if (!update.skipped) {
    if (clip > 0 && update.norm > clip)
      for (const at::Tensor& gradient : gradients) gradient.mul_(clip / update.norm);
    optimizer.step();
  }
  optimizer.zero_grad();
  return update;
}

bool ShardedSequential::any(bool here) const {
  return largest_of_all(here ? 1 : 0, grid_.world()) != 0;
}

std::vector<at::Tensor> ShardedSequential::shards() const {
  std::vector<at::Tensor> shards;
  for (const nn::Parameter& parameter : parameters_)
    if (is_trained(parameter)) shards.push_back(parameter.tensor);
  return shards;
}

}  // namespace adjoin::parallel
