#include "adjoin/movement/graph_notes.hpp"

#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "adjoin/movement/forward_record.hpp"
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

/// The tensors that a node keeps for backward, as LibTorch's compiler of backward collects them; none where it cannot
/// tell.
std::optional<std::vector<at::Tensor>> saved_tensors(const Node& node) {
  using namespace torch::dynamo::autograd;
  AutogradCompilerCall collected(SizeInput::STATIC);
  NodeCall call(0, const_cast<Node&>(node).getptr());
  try {
    CompiledNodeArgs arguments(collected, call);
    node.compiled_args(arguments);
  } catch (const std::exception&) {  // a function saved something without a hash, or a tensor that was changed since
    return std::nullopt;
  }
  return std::move(collected.tensor_args.inputs);
}

}  // namespace

std::optional<MemoryOf> memory_of(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return std::nullopt;
  return MemoryOf{tensor.storage().unsafeGetStorageImpl(), tensor.numel()};
}

SummingNodes::SummingNodes(std::type_index node) {
  nodes_that_sum().insert(node);
}

size_t GraphNotes::add(GraphNote note) {
  notes_.push_back(std::move(note));
  return notes_.size() - 1;
}

size_t GraphNotes::add(const GraphNotes& segment, const std::vector<size_t>& inputs) {
  std::vector<size_t> places;
  for (GraphNote note : segment.notes_) {
    if (note.what == What::input) {
      places.push_back(inputs[note.input]);
      continue;
    }
    for (size_t& operand : note.operands) operand = places[operand];
    if (note.what != What::leaf) note.node = nullptr;  // the node died with the segment's graph
    places.push_back(add(std::move(note)));
  }
  return places.back();
}

size_t GraphNotes::add_untracked(const at::Tensor& tensor) {
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return add({.what = What::number});
  const auto memory = memory_of(tensor);
  if (const auto moved = memory ? moved_.find(*memory) : moved_.end(); moved != moved_.end()) return moved->second;
  return add({.memory = memory});
}

void GraphNotes::add_operands_without_edges(GraphNote& note, const Node& node) {
  std::ptrdiff_t unseen = std::ranges::count_if(node.next_edges(), [](const Edge& edge) { return !edge.is_valid(); });
  const auto saved = saved_tensors(node);
  for (const at::Tensor& tensor : saved.value_or(std::vector<at::Tensor>())) {
    if (tensor.requires_grad()) continue;
    note.operands.push_back(add_untracked(tensor));
    --unseen;
  }
  if (!saved || unseen > 0) note.operands.push_back(add({}));
}

void GraphNotes::add_untracked_movements(const ForwardRecord& record) {
  for (const auto& [x, y, kinds, caller] : record.movements()) {
    const size_t of_x = add_untracked(x);
    const size_t place = add({.what = What::untracked_movement, .operands = {of_x}, .kinds = kinds, .caller = caller});
    if (const auto memory = memory_of(y)) moved_[*memory] = place;
  }
}

size_t GraphNotes::add_node(const Node& node, GraphNote note) {
  if (const auto recomputed = recomputed_of(node)) {
    const size_t place = recomputed->notes ? add(*recomputed->notes, note.operands) : add({});
    if (!notes_[place].node) notes_[place].node = &node;
    return place;
  }
  if (const auto movement = movement_of(node)) {
    note.what = What::movement;
    note.kinds = movement->kinds;
    note.caller = movement->caller;
  } else {
    note.name = node.name();
    note.sums_inside = nodes_that_sum().contains(typeid(node));
    add_operands_without_edges(note, node);
  }
  return add(std::move(note));
}

GraphNotes::GraphNotes(const at::Tensor& of, const std::vector<Edge>& inputs) {
  if (const ForwardRecord* const record = ForwardRecord::current(); record && inputs.empty())
    add_untracked_movements(*record);
  using Key = std::pair<const Node*, uint32_t>;
  constexpr uint32_t kAll = UINT32_MAX;  // all outputs of an inner node are one value
  std::map<Key, size_t> input_of, places;
  for (size_t i = 0; i < inputs.size(); ++i) input_of.try_emplace({inputs[i].function.get(), inputs[i].input_nr}, i);
  const auto find = [&](const Edge& edge) -> std::optional<size_t> {
    const Node* const node = edge.function.get();
    const Key key{node, edge.input_nr}, all{node, kAll};
    if (const auto input = input_of.find(key); input != input_of.end()) {
      if (!places.contains(key)) places[key] = add({.what = What::input, .input = input->second});
      return places[key];
    }
    if (const auto known = places.find(all); known != places.end()) return known->second;
    if (dynamic_cast<const torch::autograd::AccumulateGrad*>(node) == nullptr) return std::nullopt;
    return places[all] = add({.what = What::leaf, .node = node, .leaf = edge});
  };

  if (!of.requires_grad()) {
    add({});
    return;
  }
  const Edge root = torch::autograd::impl::gradient_edge(of);
  if (find(root)) return;
  struct Visit {
    const Node* node;
    size_t next_edge = 0;
    GraphNote note = {.what = What::operation, .node = node};
  };
  std::vector<Visit> path{{root.function.get()}};
  while (!path.empty()) {
    Visit& visit = path.back();
    if (visit.next_edge == visit.node->next_edges().size()) {
      places[{visit.node, kAll}] = add_node(*visit.node, std::move(visit.note));
      path.pop_back();
      continue;
    }
    const Edge& edge = visit.node->next_edges()[visit.next_edge];
    if (const auto found = edge.is_valid() ? find(edge) : std::nullopt) {
      visit.note.operands.push_back(*found);
      ++visit.next_edge;
    } else if (edge.is_valid()) {
      path.push_back({edge.function.get()});
    } else {
      if (recomputed_of(*visit.node)) visit.note.operands.push_back(add({}));  // its inputs are identified by position
      ++visit.next_edge;
    }
  }
}

}  // namespace adjoin
