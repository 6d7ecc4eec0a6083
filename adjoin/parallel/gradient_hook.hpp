#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace adjoin::parallel {

/// Calls a function each time that backward has come to the end of a parameter's gradient, as long as it lives. LibTorch does so too
/// where there is nothing to add: `.grad` may be undefined then. A parameter has one such hook at most.
class GradientHook {
 public:
  GradientHook(const at::Tensor& parameter, std::function<void()> added);
  ~GradientHook();
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;

  /// Whether a parameter that requires gradients has one.
  static bool is_on(const at::Tensor& parameter);

 private:
  at::Tensor parameter_;
};

}  // namespace adjoin::parallel
