#include "adjoin/parallel/gradient_hook.hpp"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace adjoin::parallel {
namespace {

struct Calling : torch::autograd::FunctionPostHook {
  explicit Calling(std::function<void()> added) : added(std::move(added)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    added();
    return outputs;
  }
  std::function<void()> added;
};

}  // namespace

GradientHook::GradientHook(const at::Tensor& parameter, std::function<void()> added)
    : parameter_(parameter),
      sizes_(parameter.sizes().vec()),
      accumulates_(torch::autograd::impl::grad_accumulator(parameter)),
      key_(accumulates_->add_post_hook(std::make_unique<Calling>(std::move(added)))) {}

GradientHook::~GradientHook() {
  accumulates_->del_post_hook(key_);
}

bool GradientHook::is_on(const at::Tensor& parameter) {
  const auto node = torch::autograd::impl::try_get_grad_accumulator(parameter);
  return node && std::ranges::any_of(node->post_hooks(), [](const auto& hook) {
           return dynamic_cast<const Calling*>(hook.get()) != nullptr;
         });
}

void GradientHook::add(const at::Tensor& parameter, const at::Tensor& gradient) {
  const auto node = torch::autograd::impl::grad_accumulator(parameter);
  (*node)({gradient});
  for (const auto& hook : node->post_hooks()) (*hook)({}, {gradient});
}

bool GradientHook::is_intact() const {
  return parameter_.sizes() == sizes_ && torch::autograd::impl::try_get_grad_accumulator(parameter_) == accumulates_;
}

}  // namespace adjoin::parallel
