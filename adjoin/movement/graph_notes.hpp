#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <vector>

#include "adjoin/comm/call_site.hpp"
#include "adjoin/movement/linear_map.hpp"

namespace adjoin {

/// What made one value of a graph of autograd, without its numbers.
struct GraphNote {
  enum class What : uint8_t {
    leaf,       ///< where the graph ends, or was to end
    input,      ///< of a function that is computed again
    untracked,  ///< an operand without gradient
    number,     ///< a plain number, which is the same on all workers
    operation,
    movement,
    segment,  ///< computed again in backward
  };
  What what = What::untracked;
  std::string name = {};              // of an operation
  std::vector<size_t> operands = {};  // places among the notes, before this one
  torch::autograd::Edge leaf = {};    // keeps it, so that no other gets its address
  size_t input = 0;
  const void* storage = nullptr;  // of an untracked operand; null where the graph does not say which tensor it is
  std::optional<MovedKinds> kinds = {};
  std::optional<CallSite::Where> caller = {};
  std::shared_ptr<const class GraphNotes> segment = {};
  bool sums_inside = false;  // an operation of which NodesThatSum knows
};

/// The notes of all that a tensor was made of, each behind its operands; the tensor's own is the last.
class GraphNotes {
 public:
  /// The walk ends at `stops`, as at leaves, and at `inputs`.
  /// Cost: about 3 us a node
  GraphNotes(const at::Tensor& of, const std::vector<torch::autograd::Edge>& stops,
             const std::vector<torch::autograd::Edge>& inputs = {});
  const std::vector<GraphNote>& notes() const { return notes_; }

 private:
  size_t add(GraphNote note);
  void add_operands_without_edges(GraphNote& note, const torch::autograd::Node& node);

  std::vector<GraphNote> notes_;
};

/// Says of an autograd function that it sums gradients over workers itself: it may take what is replicated together with what
/// differs, and its result may be of any kind. In the function's file:
/// `const NodesThatSum rule(typeid(torch::autograd::CppNode<Function>));`
class NodesThatSum {
 public:
  explicit NodesThatSum(std::type_index node);
};

}  // namespace adjoin
