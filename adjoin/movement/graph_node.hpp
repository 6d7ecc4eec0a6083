#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace adjoin {

/// How the nodes of autograd's graph are held: by an intrusive_ptr, in LibTorch 2.11 by a shared_ptr.
using NodePointer = decltype(torch::autograd::Edge::function);

/// A new node of autograd's graph.
template <class Node, class... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Node>)
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  else  // deleteNode frees a long graph without a call for each of its nodes
    return std::shared_ptr<Node>(new Node(std::forward<Arguments>(arguments)...), [](Node* node) { deleteNode(node); });
}

}  // namespace adjoin
