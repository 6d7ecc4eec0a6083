#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace adjoin::parallel {

/// While it lives, calls a function each time that backward has completed a parameter's gradient. LibTorch also calls it where
/// there is nothing to add: `.grad` may be undefined then. A parameter has at most one such hook.
class GradientHook {
 public:
  GradientHook(const at::Tensor& parameter, std::function<void()> added);
  ~GradientHook();
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;

  /// Whether a parameter that requires gradients has such a hook.
  static bool is_on(const at::Tensor& parameter);

 private:
  at::Tensor parameter_;
};

}  // namespace adjoin::parallel
