#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace adjoin::parallel {

/// What a rule updates at once: a part of this worker's parameters. All tensors are flat, with the same length and type.
struct FlatPiece {
  at::Tensor value, gradient;       ///< the gradient, summed and clipped, may be overwritten
  std::vector<at::Tensor> moments;  ///< in the order of the rule's names; zeros before the first update
};

/// The number of an update, and how far it goes.
struct UpdateStep {
  int64_t number = 1;  ///< number of the update, counted from 1; skipped steps do not count
  double rate = 0;     ///< the learning rate
  double decay = 0;    ///< the weight decay; 0 for parameters that do not decay
};

/// How an optimizer changes one element, given its gradient and what it remembers of earlier gradients.
///
/// Element by element: element i of the value and the moments may depend on element i of the piece only, since the pieces
/// depend on the number of workers. It is called without recording gradients, and never for an empty piece.
struct Rule {
  std::string name;
  std::vector<std::string> moments;  ///< "first": a checkpoint stores that of a parameter as "first.NAME"
  std::function<void(const FlatPiece&, const UpdateStep&)> update;
};

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

/// AdamW by LibTorch's fused kernel, with the moments "first" and "second".
/// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019
Rule adamw(AdamWOptions options = {});

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
};

/// Does what torch::optim::SGD does, with LibTorch's fused kernel: weight decay adds decay times the value to the gradient.
/// With momentum the rule has the moment "momentum", without momentum it has none.
/// Throws: InvalidArgument for a momentum outside [0, 1), or Nesterov's without momentum
/// Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013
Rule sgd(SgdOptions options = {});

}  // namespace adjoin::parallel
