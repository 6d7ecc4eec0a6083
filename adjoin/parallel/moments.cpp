#include "adjoin/parallel/moments.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::parallel {
namespace {

using nn::Parameter;

/// A number that all workers of the world hold.
Parameter held_by_all(const std::string& name, int64_t number, const Grid& grid) {
  const GridShape world({{"world", grid.world().size()}});
  return {name, at::full({}, number, at::kLong), Layout(world, {}), grid, std::nullopt, /*is_buffer=*/true};
}

/// A moment lies as its parameter does.
Parameter moment_of(const Parameter& parameter, const std::string& moment, at::Tensor tensor) {
  return {moment_name(moment, parameter),
          std::move(tensor),
          parameter.layout,
          parameter.grid,
          std::nullopt,
          /*is_buffer=*/true};
}

/// All moments, which `tensor` gives, in an order that is the same on all workers, and the steps.
std::vector<Parameter> moments_of(
    const Optimizer& optimizer,
    const std::function<at::Tensor(size_t i, const Parameter& parameter, size_t which)>& tensor) {
  const std::vector<Parameter> parameters = optimizer.parameters();
  std::vector<size_t> order(parameters.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return parameters[a].name < parameters[b].name; });
  std::vector<Parameter> moments;
  const std::vector<std::string>& names = optimizer.rule().moments;
  for (const size_t i : order)
    for (size_t which = 0; which < names.size(); ++which)
      moments.push_back(moment_of(parameters[i], names[which], tensor(i, parameters[i], which)));
  if (!parameters.empty()) moments.push_back(held_by_all("steps", optimizer.steps_taken(), parameters[order[0]].grid));
  return moments;
}

/// What torch::optim remembers of a parameter; made where it has not updated it.
template <class State>
State& remembered(torch::optim::Optimizer& optimizer, const Parameter& parameter) {
  auto& state = optimizer.state()[parameter.tensor.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

at::Tensor& made(at::Tensor& moment, const Parameter& parameter) {
  if (!moment.defined()) moment = at::zeros_like(parameter.tensor);
  return moment;
}

/// The moments of one parameter by their names, and its steps where they are counted; both may be written to.
struct Remembered {
  std::vector<Parameter> moments;
  int64_t* steps = nullptr;
};

/// What an optimizer remembers of all its parameters: the last moments are their counts of steps, in the order of `steps`.
struct RememberedOfAll {
  std::vector<Parameter> moments;
  std::vector<int64_t*> steps;
};

template <class State, class Options>
Remembered remembered_by_adam(torch::optim::Optimizer& optimizer, const Parameter& p) {
  auto& state = remembered<State>(optimizer, p);
  Remembered result{
      {moment_of(p, "exp_avg", made(state.exp_avg(), p)), moment_of(p, "exp_avg_sq", made(state.exp_avg_sq(), p))},
      &state.step()};
  if (static_cast<const Options&>(optimizer.defaults()).amsgrad())
    result.moments.push_back(moment_of(p, "max_exp_avg_sq", made(state.max_exp_avg_sq(), p)));
  return result;
}

Remembered remembered_of(torch::optim::Optimizer& optimizer, const Parameter& p) {
  using namespace torch::optim;
  if (dynamic_cast<Adam*>(&optimizer)) return remembered_by_adam<AdamParamState, AdamOptions>(optimizer, p);
  if (dynamic_cast<AdamW*>(&optimizer))
    return remembered_by_adam<AdamWParamState, torch::optim::AdamWOptions>(optimizer, p);
  require(dynamic_cast<SGD*>(&optimizer) != nullptr,
          [] { return "the moments of an optimizer: expected SGD, Adam or AdamW of torch::optim"; });
  if (static_cast<const SGDOptions&>(optimizer.defaults()).momentum() == 0) return {};
  return {{moment_of(p, "momentum_buffer", made(remembered<SGDParamState>(optimizer, p).momentum_buffer(), p))}};
}

RememberedOfAll remembered_of_all(torch::optim::Optimizer& optimizer, const std::vector<Parameter>& parameters) {
  RememberedOfAll all;
  std::vector<int64_t> taken;
  std::vector<const Parameter*> counted;
  for (const Parameter& p : parameters) {
    if (p.is_buffer || !p.tensor.requires_grad()) continue;
    const Remembered one = remembered_of(optimizer, p);
    all.moments.insert(all.moments.end(), one.moments.begin(), one.moments.end());
    if (!one.steps) continue;
    all.steps.push_back(one.steps);
    taken.push_back(*one.steps);
    counted.push_back(&p);
  }
  if (taken.empty()) return all;
  counted.front()->grid.world().all_reduce(buffer(taken), Reduction::max);  // a worker without a piece has taken none
  for (size_t i = 0; i < taken.size(); ++i)
    all.moments.push_back(held_by_all("step." + counted[i]->name, taken[i], counted[i]->grid));
  return all;
}

}  // namespace

std::string moment_name(const std::string& moment, const nn::Parameter& parameter) {
  return moment + "." + parameter.name;
}

nn::State gather_moments(const Optimizer& optimizer, int rank) {
  return nn::gather_state(
      moments_of(optimizer, [&](size_t i, const Parameter&, size_t which) { return optimizer.moment(i, which); }),
      rank);
}

void scatter_moments(const nn::State& state, Optimizer& optimizer, int rank) {
  const std::vector<Parameter> moments =
      moments_of(optimizer, [](size_t, const Parameter& p, size_t) { return at::zeros_like(p.tensor); });
  if (moments.empty()) return;
  nn::scatter_state(state, moments, rank);
  std::map<std::string, at::Tensor> pieces;
  for (const Parameter& moment : moments) pieces.emplace(moment.name, moment.tensor);
  optimizer.load_state(pieces.at("steps").item<int64_t>(), [&](const Parameter& p, const std::string& moment) {
    return pieces.at(moment_name(moment, p));
  });
}

nn::State gather_moments(torch::optim::Optimizer& optimizer, const std::vector<Parameter>& parameters, int rank) {
  return nn::gather_state(remembered_of_all(optimizer, parameters).moments, rank);
}

void scatter_moments(const nn::State& state, torch::optim::Optimizer& optimizer,
                     const std::vector<Parameter>& parameters, int rank) {
  const RememberedOfAll all = remembered_of_all(optimizer, parameters);
  nn::scatter_state(state, all.moments, rank);
  auto count = all.moments.end() - static_cast<std::ptrdiff_t>(all.steps.size());
  for (int64_t* steps : all.steps) *steps = (count++)->tensor.item<int64_t>();
}

}  // namespace adjoin::parallel
