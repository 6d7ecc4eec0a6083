#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace adjoin {

/// Gradients of parameters that one backward left to be computed later.
///
/// A pipeline sends the gradient of a stage's input on as soon as it has it, and computes those of the stage's weights while
/// it would wait otherwise (Qi et al., "Zero bubble pipeline parallelism", arXiv 2401.10241).
class PostponedGradients {
 public:
  PostponedGradients() = default;
  PostponedGradients(PostponedGradients&&) = default;
  PostponedGradients& operator=(PostponedGradients&&) = default;

  /// Calls `backward`, in which layers leave here the gradients that can wait; all communication of backward happens in it.
  /// Those of this thread alone: LibTorch runs backward on the CPU on the thread that asks for it.
  void collect(const std::function<void()>& backward);
  /// Computes what was left, adds it to `.grad` of the parameters as backward would have, to the same bits, and forgets it.
  void compute();
  bool empty() const { return left_.empty(); }

 private:
  friend at::Tensor now_or_postponed(const at::Tensor& parameter, std::function<at::Tensor()> gradient);
  struct Left {
    at::Tensor parameter;
    std::function<at::Tensor()> gradient;
  };
  std::vector<Left> left_;
};

/// For a layer's backward: what it returns as the gradient of a parameter, computed now, or nothing where it was left to those
/// that collect on this thread.
///
/// It can wait where the parameter is a leaf that requires a gradient and has no hooks, and backward creates no graph. What
/// `gradient` holds is kept until then; it communicates nothing.
at::Tensor now_or_postponed(const at::Tensor& parameter, std::function<at::Tensor()> gradient);

}  // namespace adjoin
