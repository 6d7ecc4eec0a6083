#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/movement/linear_map.hpp"

namespace adjoin {

/// The memory of a tensor's elements, and their number: a part of another tensor is not the same value.
using MemoryOf = std::pair<const void*, int64_t>;
std::optional<MemoryOf> memory_of(const at::Tensor& tensor);

/// How one value of autograd's graph was made, without its numbers.
struct GraphNote {
  enum class What : uint8_t {
    leaf,       ///< where the graph ends
    input,      ///< of a function that is computed again
    untracked,  ///< an operand without gradient
    number,     ///< a plain number, which is the same on all workers
    operation,
    movement,
    untracked_movement,  ///< of a tensor without gradient
  };
  What what = What::untracked;
  std::string name = {};                        // of an operation
  std::vector<size_t> operands = {};            // indices among the notes, before this one
  const torch::autograd::Node* node = nullptr;  // autograd's node, which dies with its graph
  torch::autograd::Edge leaf = {};              // keeps the node of a leaf, so that no other node gets its address
  size_t input = 0;
  std::optional<MemoryOf> memory = {};  // of an untracked operand; none where the graph does not say which tensor it is
  std::optional<MovedKinds> kinds = {};
  std::optional<CallSite::Where> caller = {};
  bool sums_inside = false;  // an operation that a SummingNodes declares
};

class ForwardRecord;

/// The notes of all values that a tensor was made from, each after its operands; the tensor's own note is the last. Those of
/// segments that are computed again in backward are included, where there are notes of them.
class GraphNotes {
 public:
  /// The walk ends at leaves and at `inputs`. Without `inputs`, which only a segment has, the movements of the ForwardRecord are
  /// included too.
  /// Cost: about 3 us per node
  explicit GraphNotes(const at::Tensor& of, const std::vector<torch::autograd::Edge>& inputs = {});
  const std::vector<GraphNote>& notes() const { return notes_; }

 private:
  size_t add(GraphNote note);
  size_t add_untracked(const at::Tensor& tensor);
  /// Adds the notes of a segment whose inputs have these indices. Returns the index of its result.
  size_t add(const GraphNotes& segment, const std::vector<size_t>& inputs);
  size_t add_node(const torch::autograd::Node& node, GraphNote note);
  void add_untracked_movements(const ForwardRecord& record);
  void add_operands_without_edges(GraphNote& note, const torch::autograd::Node& node);

  std::vector<GraphNote> notes_;
  std::map<MemoryOf, size_t> moved_;  // results of untracked movements
};

/// Declares that an autograd function itself sums gradients over workers: it may combine replicated operands with operands that
/// differ, and its result may be of any kind. In the function's file:
/// `const SummingNodes rule(typeid(torch::autograd::CppNode<Function>));`
class SummingNodes {
 public:
  explicit SummingNodes(std::type_index node);
};

}  // namespace adjoin
