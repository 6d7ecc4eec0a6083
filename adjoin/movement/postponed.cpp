#include "adjoin/movement/postponed.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace adjoin {
namespace {

thread_local PostponedGradients* collecting = nullptr;

bool can_wait(const at::Tensor& parameter) {
  if (at::GradMode::is_enabled() || !parameter.is_leaf() || !parameter.requires_grad()) return false;
  namespace impl = torch::autograd::impl;
  if (!impl::hooks(parameter).empty()) return false;
  const auto accumulator = impl::try_get_grad_accumulator(parameter);
  return !accumulator || accumulator->pre_hooks().empty();
}

/// Adds to `.grad`, and calls the hooks that autograd calls then.
void accumulate(const at::Tensor& parameter, at::Tensor gradient) {
  const auto node = torch::autograd::impl::grad_accumulator(parameter);
  torch::autograd::variable_list inputs(1), outputs;
  inputs[0] = std::move(gradient);
  if (node->post_hooks().empty()) {  // the only owner, so that it becomes `.grad` without a copy
    (*node)(std::move(inputs));
    return;
  }
  outputs = (*node)(torch::autograd::variable_list(inputs));
  for (const auto& hook : node->post_hooks()) outputs = (*hook)(outputs, inputs);
}

}  // namespace

void PostponedGradients::collect(const std::function<void()>& backward) {
  PostponedGradients* const before = std::exchange(collecting, this);
  const auto end = c10::make_scope_exit([&] { collecting = before; });
  backward();
}

void PostponedGradients::compute() {
  struct Sum {
    int64_t summands_to_come = 0;
    at::Tensor so_far;
  };
  const at::NoGradGuard no_gradient;
  std::vector<Left> left = std::exchange(left_, {});
  // As in autograd, the gradients of one parameter (of a layer that is used twice) are summed before `.grad` gets them.
  std::unordered_map<const void*, Sum> sums;
  for (const Left& one : left) ++sums[one.parameter.unsafeGetTensorImpl()].summands_to_come;
  for (Left& one : left) {
    Sum& sum = sums[one.parameter.unsafeGetTensorImpl()];
    at::Tensor gradient = std::exchange(one.gradient, nullptr)();
    if (!sum.so_far.defined())
      sum.so_far = std::move(gradient);
    else if (gradient.defined())
      sum.so_far = sum.so_far + gradient;
    if (--sum.summands_to_come > 0) continue;
    accumulate(one.parameter, std::exchange(sum.so_far, {}));
  }
}

at::Tensor parameter_gradient(const at::Tensor& parameter, std::function<at::Tensor()> gradient) {
  if (!collecting || !can_wait(parameter)) return gradient();
  collecting->left_.push_back({parameter, std::move(gradient)});
  return {};
}

}  // namespace adjoin
