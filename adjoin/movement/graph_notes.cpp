#include "adjoin/movement/graph_notes.hpp"

#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "adjoin/movement/recompute.hpp"

namespace adjoin {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using What = GraphNote::What;

std::set<std::type_index>& nodes_that_sum() {
  static std::set<std::type_index> nodes;
  return nodes;
}

/// What a node keeps for backward, as LibTorch's compiler of backward collects it; none where it cannot say.
std::optional<std::vector<at::Tensor>> saved_tensors(const Node& node) {
  using namespace torch::dynamo::autograd;
  AutogradCompilerCall collected(SizeInput::STATIC);
  NodeCall call(0, const_cast<Node&>(node).getptr());
  try {
    CompiledNodeArgs arguments(collected, call);
    node.compiled_args(arguments);
  } catch (const std::exception&) {  // a function that saves what has no hash, or a tensor that was changed since
    return std::nullopt;
  }
  return std::move(collected.tensor_args.inputs);
}

}  // namespace

NodesThatSum::NodesThatSum(std::type_index node) {
  nodes_that_sum().insert(node);
}

size_t GraphNotes::add(GraphNote note) {
  notes_.push_back(std::move(note));
  return notes_.size() - 1;
}

void GraphNotes::add_operands_without_edges(GraphNote& note, const Node& node) {
  std::ptrdiff_t unseen = std::ranges::count_if(node.next_edges(), [](const Edge& edge) { return !edge.is_valid(); });
  const auto saved = saved_tensors(node);
  for (const at::Tensor& tensor : saved.value_or(std::vector<at::Tensor>())) {
    if (tensor.requires_grad()) continue;
    const bool is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    note.operands.push_back(add({.what = is_number ? What::number : What::untracked,
                                 .storage = tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr}));
    --unseen;
  }
  if (!saved || unseen > 0) note.operands.push_back(add({}));
}

GraphNotes::GraphNotes(const at::Tensor& of, const std::vector<Edge>& stops, const std::vector<Edge>& inputs) {
  using Key = std::pair<const Node*, uint32_t>;
  std::map<Key, GraphNote> ends;
  for (const Edge& edge : stops)
    ends.try_emplace({edge.function.get(), edge.input_nr}, GraphNote{.what = What::leaf, .leaf = edge});
  for (size_t i = 0; i < inputs.size(); ++i)
    ends.try_emplace({inputs[i].function.get(), inputs[i].input_nr}, GraphNote{.what = What::input, .input = i});

  std::map<Key, size_t> places;  // of ends; all outputs of another node are one value
  const auto find = [&](const Edge& edge) -> std::optional<size_t> {
    const Key key{edge.function.get(), edge.input_nr};
    if (const auto known = places.find(key); known != places.end()) return known->second;
    if (const auto known = places.find({key.first, UINT32_MAX}); known != places.end() && !ends.contains(key))
      return known->second;
    const bool is_leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(key.first) != nullptr;
    if (const auto end = ends.find(key); end != ends.end() || is_leaf)
      return places[key] = add(end != ends.end() ? end->second : GraphNote{.what = What::leaf, .leaf = edge});
    return std::nullopt;
  };

  if (!of.requires_grad()) {
    add({});
    return;
  }
  struct Visit {
    const Node* node;
    size_t next_edge = 0;
    GraphNote note = {.what = What::operation};
  };
  const Edge root = torch::autograd::impl::gradient_edge(of);
  if (find(root)) return;
  std::vector<Visit> path{{root.function.get()}};
  while (!path.empty()) {
    Visit& visit = path.back();
    const Node& node = *visit.node;
    if (visit.next_edge < node.next_edges().size()) {
      const Edge& edge = node.next_edges()[visit.next_edge];
      if (const auto found = edge.is_valid() ? find(edge) : std::nullopt) {
        visit.note.operands.push_back(*found);
        ++visit.next_edge;
      } else if (edge.is_valid()) {
        path.push_back({edge.function.get()});
      } else {
        if (recomputed_of(node)) visit.note.operands.push_back(add({}));  // its inputs are known by their places
        ++visit.next_edge;
      }
      continue;
    }
    GraphNote& note = visit.note;
    if (const auto movement = movement_of(node)) {
      note.what = What::movement;
      note.kinds = movement->kinds;
      note.caller = movement->caller;
    } else if (const auto recomputed = recomputed_of(node)) {
      note.what = What::segment;
      note.segment = recomputed->notes;
    } else {
      note.name = node.name();
      note.sums_inside = nodes_that_sum().contains(typeid(node));
      add_operands_without_edges(note, node);
    }
    places[{visit.node, UINT32_MAX}] = add(std::move(note));
    path.pop_back();
  }
}

}  // namespace adjoin
