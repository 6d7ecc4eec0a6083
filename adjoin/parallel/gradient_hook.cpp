#include "adjoin/parallel/gradient_hook.hpp"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace adjoin::parallel {
namespace {

struct Calling : torch::autograd::PostAccumulateGradHook {
  explicit Calling(std::function<void()> added) : added(std::move(added)) {}
  void operator()(const at::Tensor&) override { added(); }
  std::function<void()> added;
};

}  // namespace

GradientHook::GradientHook(const at::Tensor& parameter, std::function<void()> added) : parameter_(parameter) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter_, std::make_unique<Calling>(std::move(added)));
}

GradientHook::~GradientHook() {
  torch::autograd::impl::post_acc_grad_hooks(parameter_).reset();
}

bool GradientHook::is_on(const at::Tensor& parameter) {
  return torch::autograd::impl::post_acc_grad_hooks(parameter) != nullptr;
}

}  // namespace adjoin::parallel
