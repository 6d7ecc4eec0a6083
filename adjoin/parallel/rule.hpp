#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace adjoin::parallel {

/// What a rule updates at once: a stretch of this worker's parameters. All tensors are flat, of one length and one type.
struct FlatPiece {
  at::Tensor value, gradient;       ///< the gradient, summed and clipped, may be written over
  std::vector<at::Tensor> moments;  ///< in the order of the rule's names; zeros before the first update
};

/// When and how far.
struct UpdateStep {
  int64_t number = 1;  ///< of updates, counted from 1: a step that was skipped is none
  double rate = 0;     ///< the learning rate
  double decay = 0;    ///< the weight decay; 0 for parameters that do not decay
};

/// How an optimizer changes one element by its gradient and what it remembers of earlier ones.
///
/// By elements: element i of the value and the moments may depend on element i of the piece alone, since pieces are cut
/// otherwise on every number of workers. It is called without gradients being recorded, never for an empty piece.
struct Rule {
  std::string name;
  std::vector<std::string> moments;  ///< "first": a checkpoint calls that of a parameter "first.NAME"
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

/// What torch::optim::SGD does, by LibTorch's fused kernel: weight decay adds decay times the value to the gradient. With
/// momentum it has the moment "momentum", without none.
/// Throws: InvalidArgument for a momentum outside [0, 1), or Nesterov's without any
/// Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013
Rule sgd(SgdOptions options = {});

}  // namespace adjoin::parallel
