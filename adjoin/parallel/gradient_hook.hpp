#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/movement/graph_node.hpp"

namespace adjoin::parallel {

/// While it lives, calls a function each time that backward has completed a parameter's gradient, after all hooks of users. LibTorch
/// also calls it where there is nothing to add: `.grad` may be undefined then. A parameter has at most one such hook.
class GradientHook : NotCopied {
 public:
  GradientHook(const at::Tensor& parameter, std::function<void()> added);
  ~GradientHook();

  /// Whether a parameter that requires gradients has such a hook.
  static bool is_on(const at::Tensor& parameter);
  /// Adds to the gradient of a parameter as backward does, with its hooks.
  static void add(const at::Tensor& parameter, const at::Tensor& gradient);
  /// Whether it is still called: it is not where the parameter was given data of another size or type.
  bool is_intact() const;

 private:
  at::Tensor parameter_;
  std::vector<int64_t> sizes_;
  NodePointer accumulates_;
  uintptr_t key_;
};

}  // namespace adjoin::parallel
