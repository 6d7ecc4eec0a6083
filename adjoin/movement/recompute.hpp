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

/// f(inputs), for which only the inputs are kept until backward: there f is computed again, with autocast as it was in forward.
///
/// f must return the same tensor each time, and must not draw random numbers from a generator: masks of a ForwardPass are drawn
/// again alike. f is kept until backward, so it must capture by value what does not live as long. Other tensors that f uses,
/// such as a module's parameters, get their gradients added in backward. Where no input requires a gradient, f is called
/// directly, since nothing would request its backward; so it is in forward mode, whose derivatives f carries itself.
///
/// Adjoint: once differentiable; calls must not be nested
/// Throws:  InvalidArgument for no input, or more than 8 inputs
/// Cost:    f's forward pass once more, its communication included; memory: the inputs
/// Source:  Chen et al., "Training deep nets with sublinear memory cost", arXiv 1604.06174
at::Tensor recomputed(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& f,
                      const std::vector<at::Tensor>& inputs);

/// Tells whether a node of autograd's graph was made by `recomputed`. `notes` is what was recorded of f; null where nothing
/// was.
struct RecomputedNode {
  std::shared_ptr<const GraphNotes> notes;
};
std::optional<RecomputedNode> recomputed_of(const torch::autograd::Node& node);

}  // namespace adjoin
