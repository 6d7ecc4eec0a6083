#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace adjoin {

class GraphNotes;

/// f(inputs), of which only the inputs wait for backward: there f is computed again, with autocast as it was.
///
/// f must give the same tensor each time, and none of its random numbers from a generator: masks of a ForwardPass are drawn
/// again alike. f is kept until backward, so it takes by value what does not live as long. What f uses beside its inputs, as
/// a module's parameters, gets its gradients added in backward. Where no input requires a gradient, f is called as it is,
/// since nothing would ask for its backward.
///
/// Adjoint: once differentiable; must not stand within another
/// Throws:  InvalidArgument for none, or more than 3 inputs
/// Cost:    f's forward pass once more, its communication included; memory: the inputs
/// Source:  Chen et al., "Training deep nets with sublinear memory cost", arXiv 1604.06174
at::Tensor recomputed(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& f,
                      const std::vector<at::Tensor>& inputs);

/// Whether a node of autograd's graph is that of `recomputed`, and what was noted of f; null where nothing was.
struct RecomputedNode {
  std::shared_ptr<const GraphNotes> notes;
};
std::optional<RecomputedNode> recomputed_of(const torch::autograd::Node& node);

}  // namespace adjoin
