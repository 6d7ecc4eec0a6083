#include "adjoin/parallel/moments.hpp"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/bucket.hpp"

namespace adjoin::parallel {
namespace {

using nn::Parameter;

/// The pieces of one optimizer's state, and its counts of steps, which they refer to.
struct Remembered {
  std::vector<Parameter> pieces;
  std::vector<int64_t*> steps;

  /// A moment has its parameter's layout; it is made where the optimizer has not updated the parameter yet.
  void add_moment(const std::string& name, at::Tensor& moment, const Parameter& parameter) {
    if (!moment.defined()) moment = at::zeros_like(parameter.tensor);
    pieces.push_back({name + "." + parameter.name, moment, parameter.layout, parameter.grid, {}});
  }
  void add_steps(int64_t& count, const Parameter& parameter) {
    steps.push_back(&count);
    pieces.push_back(nn::held_by_all("step." + parameter.name, at::from_blob(&count, {}, at::kLong), parameter.grid));
  }
};

/// The state that torch::optim keeps for a parameter; made where the parameter was not updated yet.
template <class State>
State& remembered(torch::optim::Optimizer& optimizer, const Parameter& parameter) {
  auto& state = optimizer.state()[parameter.tensor.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

/// Whether an optimizer has a parameter that is frozen now, and goes on with it once it is thawed.
bool is_updated_by(const torch::optim::Optimizer& optimizer, const Parameter& parameter) {
  return std::ranges::any_of(optimizer.param_groups(), [&](const torch::optim::OptimizerParamGroup& group) {
    return std::ranges::any_of(group.params(),
                               [&](const at::Tensor& tensor) { return tensor.is_same(parameter.tensor); });
  });
}

/// The options of an optimizer for a parameter: those of its group, or the defaults.
template <class Options>
const Options& options_of(torch::optim::Optimizer& optimizer, const Parameter& parameter) {
  for (const torch::optim::OptimizerParamGroup& group : optimizer.param_groups())
    for (const at::Tensor& tensor : group.params())
      if (tensor.is_same(parameter.tensor) && group.has_options()) return static_cast<const Options&>(group.options());
  return static_cast<const Options&>(optimizer.defaults());
}

template <class State, class Options>
void add_adam(Remembered& all, torch::optim::Optimizer& optimizer, const Parameter& parameter) {
  auto& state = remembered<State>(optimizer, parameter);
  all.add_moment("exp_avg", state.exp_avg(), parameter);
  all.add_moment("exp_avg_sq", state.exp_avg_sq(), parameter);
  if (options_of<Options>(optimizer, parameter).amsgrad())
    all.add_moment("max_exp_avg_sq", state.max_exp_avg_sq(), parameter);
  all.add_steps(state.step(), parameter);
}

}  // namespace

std::vector<Parameter> state_of(torch::optim::Optimizer& optimizer, const std::vector<Parameter>& parameters) {
  using namespace torch::optim;
  Remembered all;
  for (const Parameter& parameter : parameters) {
    if (!is_trained(parameter) && !is_updated_by(optimizer, parameter)) continue;
    if (dynamic_cast<Adam*>(&optimizer)) {
      add_adam<AdamParamState, AdamOptions>(all, optimizer, parameter);
    } else if (dynamic_cast<AdamW*>(&optimizer)) {
      add_adam<AdamWParamState, torch::optim::AdamWOptions>(all, optimizer, parameter);
    } else if (dynamic_cast<Adagrad*>(&optimizer)) {
      auto& state = remembered<AdagradParamState>(optimizer, parameter);
      all.add_moment("sum", state.sum(), parameter);
      all.add_steps(state.step(), parameter);
    } else if (dynamic_cast<RMSprop*>(&optimizer)) {
      auto& state = remembered<RMSpropParamState>(optimizer, parameter);
      const auto& options = options_of<RMSpropOptions>(optimizer, parameter);
      all.add_moment("square_avg", state.square_avg(), parameter);
      if (options.momentum() > 0) all.add_moment("momentum_buffer", state.momentum_buffer(), parameter);
      if (options.centered()) all.add_moment("grad_avg", state.grad_avg(), parameter);
      all.add_steps(state.step(), parameter);
    } else {
      require(dynamic_cast<SGD*>(&optimizer) != nullptr,
              "the moments of an optimizer: expected SGD, Adam, AdamW, Adagrad or RMSprop of torch::optim");
      const auto& options = options_of<SGDOptions>(optimizer, parameter);
      // SGD's first step uses the gradient without dampening, which it would not do with a moment of zeros.
      require(options.momentum() == 0 || options.dampening() == 0,
              "the moments of SGD: expected no dampening, because with it SGD's first step differs from all later "
              "ones, and a moment of zeros in a checkpoint does not show whether that step was taken");
      if (options.momentum() != 0)
        all.add_moment("momentum_buffer", remembered<SGDParamState>(optimizer, parameter).momentum_buffer(), parameter);
    }
  }
  if (all.steps.empty()) return all.pieces;
  std::vector<int64_t> taken;  // by the worker that has taken most: a worker without elements of a parameter takes none
  for (const int64_t* count : all.steps) taken.push_back(*count);
  parameters.front().grid.world().all_reduce(buffer(taken), Reduction::max);
  for (size_t i = 0; i < taken.size(); ++i) *all.steps[i] = taken[i];
  return all.pieces;
}

}  // namespace adjoin::parallel
