#include "adjoin/program/dataflow.hpp"

#include <algorithm>
#include <numeric>
#include <ranges>

#include "adjoin/program/operators.hpp"

namespace adjoin::program {
namespace {

bool is_constant(const Node& node, const char* name, const c10::IValue& value) {
  const c10::IValue* constant = constant_of(node, name);
  return constant != nullptr && !constant->isNone() && *constant == value;
}

bool draws_numbers(const Node& node) {
  return node.handle && node.handle->hasTag(at::Tag::nondeterministic_seeded) && !is_constant(node, "train", false) &&
         !is_constant(node, "p", 0.0) && !is_constant(node, "dropout_p", 0.0);
}

/// Norms write their statistics, which their schemas do not say.
bool is_written(const Node& node, const c10::Argument& argument) {
  if (argument.name().starts_with("running_"))
    return !is_constant(node, "training", false) && !is_constant(node, "use_input_stats", false);
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

int64_t bytes_of(const Declared& declared) {
  auto bytes = declared.tensor ? static_cast<int64_t>(c10::elementSize(declared.tensor->type)) : 8;
  if (declared.tensor)
    for (const Size& size : declared.tensor->sizes) bytes *= size.example.value_or(1);
  return bytes;
}

}  // namespace

Effects effects_of(const Node& node) {
  Effects effects{.draws = draws_numbers(node)};
  bool writes_all = false;  // of a graph within, what is written is not looked for
  if (node.body != nullptr)
    for (const Node& inner : node.body->nodes) {
      const Effects of_inner = effects_of(inner);
      effects.draws = effects.draws || of_inner.draws;
      writes_all = writes_all || !of_inner.writes.empty();
    }
  for (size_t i = 0; i < node.arguments.size(); ++i)
    for (const Slot slot : node.arguments[i].slots) {
      if (slot == kNoSlot) continue;
      effects.reads.push_back(slot);
      if (writes_all || (node.kind == Node::Kind::call && is_written(node, node.handle->schema().arguments()[i])))
        effects.writes.push_back(slot);
    }
  return effects;
}

void find_last_uses(Graph& graph) {
  std::set<Slot> used{kNoSlot};
  for (const Argument& output : graph.outputs) used.insert(output.slots.begin(), output.slots.end());
  for (Node& node : std::views::reverse(graph.nodes)) {
    node.last_used.clear();
    const auto note = [&](Slot slot) {
      if (used.insert(slot).second) node.last_used.push_back(slot);
    };
    for (const Argument& argument : node.arguments) std::ranges::for_each(argument.slots, note);
    std::ranges::for_each(node.outputs, note);
  }
}

Dataflow::Dataflow(const Graph& graph, const std::set<Slot>& free)
    : graph_(graph), made_(graph.values.size(), 0), read_(graph.values.size(), 0), roots_(graph.values.size()) {
  std::iota(roots_.begin(), roots_.end(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    effects_.push_back(effects_of(graph.nodes[i]));
    for (const Slot slot : effects_[i].reads) read_[static_cast<size_t>(slot)] = i + 1;
    for (const Slot slot : graph.nodes[i].outputs)
      if (slot != kNoSlot) made_[static_cast<size_t>(slot)] = i + 1;
  }
  for (const Argument& output : graph.outputs)
    for (const Slot slot : output.slots) read_[static_cast<size_t>(slot)] = nodes() + 1;
  join_what_shares_memory();
  find_free(free);
}

void Dataflow::join_what_shares_memory() {
  for (const Node& node : graph_.nodes) {
    if (node.kind != Node::Kind::call) continue;
    const c10::FunctionSchema& schema = node.handle->schema();
    if (std::ranges::none_of(schema.returns(), [](const auto& result) { return result.alias_info() != nullptr; }))
      continue;
    for (size_t i = 0; i < node.arguments.size(); ++i)
      if (schema.arguments()[i].alias_info() != nullptr && !node.arguments[i].slots.empty())
        for (const Slot slot : node.outputs)
          if (slot != kNoSlot) roots_[static_cast<size_t>(slot)] = root(node.arguments[i].slots[0]);
  }
}

void Dataflow::find_free(const std::set<Slot>& free) {
  is_free_.resize(made_.size());
  is_free_node_.assign(nodes(), true);
  for (size_t slot = 0; slot < made_.size(); ++slot)
    is_free_[slot] = made_[slot] > 0 || free.contains(static_cast<Slot>(slot));
  std::set<Slot> bound;  // the roots of what nodes write that are not free
  for (bool changes = true; changes;) {
    changes = false;
    for (size_t i = 0; i < nodes(); ++i) {
      const Effects& effects = effects_[i];
      const auto depends = [&](Slot slot) { return !is_free(slot) || bound.contains(root(slot)); };
      if (!is_free_node_[i] || !(effects.draws || std::ranges::any_of(effects.reads, depends))) continue;
      changes = true;
      is_free_node_[i] = false;
      for (const Slot slot : graph_.nodes[i].outputs)
        if (slot != kNoSlot) is_free_[static_cast<size_t>(slot)] = false;
      for (const Slot slot : effects.writes) bound.insert(root(slot));
    }
  }
  for (size_t slot = 0; slot < made_.size(); ++slot)
    if (bound.contains(roots_[slot])) is_free_[slot] = false;
}

std::vector<Slot> Dataflow::alive(size_t border) const {
  std::vector<Slot> alive;
  for (size_t slot = 0; slot < made_.size(); ++slot)
    if (made_[slot] > 0 && made_[slot] <= border && read_[slot] > border && !is_free_[slot])
      alive.push_back(static_cast<Slot>(slot));
  return alive;
}

int64_t Dataflow::bytes_alive(size_t border) const {
  int64_t bytes = 0;
  for (const Slot slot : alive(border)) bytes += bytes_of(graph_.values[static_cast<size_t>(slot)]);
  return bytes;
}

std::string Dataflow::why_not(size_t border) const {
  const auto touches = [&](size_t node, Slot written) {
    return std::ranges::any_of(effects_[node].reads, [&](Slot slot) { return root(slot) == root(written); });
  };
  for (size_t i = 0; i < nodes(); ++i)
    for (const Slot written : effects_[i].writes) {
      if (is_free_node_[i]) continue;
      bool is_on_both_sides = false;
      if (made_[static_cast<size_t>(root(written))] == 0) {  // a buffer, of which each part that reads it has its own
        for (size_t j = 0; j < nodes(); ++j)
          is_on_both_sides = is_on_both_sides || (touches(j, written) && (j < border) != (i < border));
      } else if (i >= border) {
        int64_t alive = 0;
        for (size_t slot = 0; slot < made_.size(); ++slot)
          if (roots_[slot] == root(written) && made_[slot] <= border && read_[slot] > border) ++alive;
        is_on_both_sides = alive > 1;
      }
      if (is_on_both_sides) return graph_.nodes[i].where() + " writes to a value that both sides have";
    }
  return "";
}

Part Dataflow::part(size_t begin, size_t end) const {
  Part part{.graph = {.inputs = graph_.inputs, .values = graph_.values}, .takes = alive(begin)};
  for (size_t i = 0; i < begin; ++i) part.draws_before += static_cast<int64_t>(effects_[i].draws);
  part.gives = alive(end);  // at the end too, as a part without nodes may come after it
  if (end == nodes()) part.graph.outputs = graph_.outputs;
  for (size_t i = 0; end < nodes() && i < part.gives.size(); ++i)
    part.graph.outputs.push_back({.kind = Argument::Kind::value, .slots = {part.gives[i]}});
  std::set<Slot> needed, roots;
  const auto need = [&](Slot slot) {
    needed.insert(slot);
    roots.insert(root(slot));
  };
  for (const Argument& output : part.graph.outputs) std::ranges::for_each(output.slots, need);
  for (size_t i = end; i-- > 0;) {
    const Node& node = graph_.nodes[i];
    bool runs = i >= begin && (!is_free_node_[i] || node.kind == Node::Kind::check);
    if (is_free_node_[i])
      runs = runs || std::ranges::any_of(node.outputs, [&](Slot slot) { return needed.contains(slot); }) ||
             std::ranges::any_of(effects_[i].writes, [&](Slot slot) { return roots.contains(root(slot)); });
    if (!runs) continue;
    std::ranges::for_each(effects_[i].reads, need);
    part.graph.nodes.push_back(node);
  }
  std::ranges::reverse(part.graph.nodes);
  find_last_uses(part.graph);
  return part;
}

}  // namespace adjoin::program
