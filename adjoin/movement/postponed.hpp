#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace adjoin {

/// Gradients of parameters whose computation a backward pass has postponed.
///
/// A pipeline sends the gradient of a stage's input on as soon as it has it, and computes the gradients of the stage's weights
/// while it would otherwise wait (Qi et al., "Zero bubble pipeline parallelism", arXiv 2401.10241).
class PostponedGradients {
 public:
  PostponedGradients() = default;
  PostponedGradients(PostponedGradients&&) = default;
  PostponedGradients& operator=(PostponedGradients&&) = default;

  /// Calls `backward`, during which layers postpone here the gradients that can wait; all communication of backward happens in
  /// it. Collects those of this thread alone: LibTorch runs backward on the CPU on the thread that requests it.
  void collect(const std::function<void()>& backward);
  /// Computes the postponed gradients, adds them to `.grad` of the parameters as backward would have, with the same bits, and
  /// forgets them.
  void compute();
  bool empty() const { return left_.empty(); }

 private:
  friend at::Tensor parameter_gradient(const at::Tensor& parameter, std::function<at::Tensor()> gradient);
  struct Left {
    at::Tensor parameter;
    std::function<at::Tensor()> gradient;
  };
  std::vector<Left> left_;
};

/// For a layer's backward: returns the gradient of a parameter, computed now, or an undefined tensor where it was postponed to
/// a PostponedGradients that collects on this thread.
///
/// A gradient can wait where the parameter is a leaf that requires a gradient and has no hooks, and backward creates no graph.
/// What `gradient` captures is kept until then; `gradient` must not communicate. It returns an undefined tensor where it adds the
/// gradient elsewhere.
at::Tensor parameter_gradient(const at::Tensor& parameter, std::function<at::Tensor()> gradient);

}  // namespace adjoin
