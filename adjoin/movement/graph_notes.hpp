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

#include "adjoin/comm/call_site.hpp"
#include "adjoin/movement/linear_map.hpp"

namespace adjoin {

/// Where the elements of a tensor lie, and how many they are: a part of another tensor is not the same value.
using MemoryOf = std::pair<const void*, int64_t>;
std::optional<MemoryOf> memory_of(const at::Tensor& tensor);

/// What made one value of a graph of autograd, without its numbers.
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
  std::vector<size_t> operands = {};            // places among the notes, before this one
  const torch::autograd::Node* node = nullptr;  // of autograd, which goes with its graph
  torch::autograd::Edge leaf = {};              // keeps that of a leaf, so that no other gets its address
  size_t input = 0;
  std::optional<MemoryOf> memory = {};  // of an untracked operand; none where the graph does not say which tensor it is
  std::optional<MovedKinds> kinds = {};
  std::optional<CallSite::Where> caller = {};
  bool sums_inside = false;  // an operation of which NodesThatSum knows
};

/// The notes of all that a tensor was made of, each behind its operands; the tensor's own is the last. Those of a segment that is
/// computed again in backward are among them, where it has any.
class GraphNotes {
 public:
  /// The walk ends at leaves and at `inputs`. Without these, which a segment has, the movements that ForwardNotes have are there too.
  /// Cost: about 3 us a node
  explicit GraphNotes(const at::Tensor& of, const std::vector<torch::autograd::Edge>& inputs = {});
  const std::vector<GraphNote>& notes() const { return notes_; }

 private:
  size_t add(GraphNote note);
  size_t add_untracked(const at::Tensor& tensor);
  /// Those of a segment whose inputs have these places. Returns the place of its result.
  size_t add(const GraphNotes& segment, const std::vector<size_t>& inputs);
  void add_operands_without_edges(GraphNote& note, const torch::autograd::Node& node);

  std::vector<GraphNote> notes_;
  std::map<MemoryOf, size_t> moved_;  // what untracked movements made
};

/// Says of an autograd function that it sums gradients over workers itself: it may take what is replicated together with what
/// differs, and its result may be of any kind. In the function's file:
/// `const NodesThatSum rule(typeid(torch::autograd::CppNode<Function>));`
class NodesThatSum {
 public:
  explicit NodesThatSum(std::type_index node);
};

}  // namespace adjoin
