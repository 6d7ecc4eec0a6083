#include "adjoin/program/evaluation.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "adjoin/program/dataflow.hpp"
#include "adjoin/program/operators.hpp"

namespace adjoin::program {
namespace {

constexpr const char* kFlags[] = {"train", "training", "use_input_stats"};

bool is_true(const c10::IValue* constant) {
  return constant != nullptr && constant->isBool() && constant->toBool();
}
double probability(const Node& node) {
  const c10::IValue* p = constant_of(node, "p");
  return p != nullptr && p->isDouble() ? p->toDouble() : 0;
}

void find_dropout(const Graph& graph, bool& drops, std::string& first) {
  for (const Node& node : graph.nodes) {
    if (node.body != nullptr) find_dropout(*node.body, drops, first);
    if (std::ranges::any_of(kFlags, [&](const char* flag) { return is_true(constant_of(node, flag)); })) drops = true;
    const c10::IValue* train = constant_of(node, "train");
    if (train != nullptr && !is_true(train) && probability(node) > 0 && first.empty()) first = node.where();
  }
}

class Evaluator {
 public:
  std::string why_not;

  /// `buffers`: the slots of buffers, with their names.
  Graph evaluated(const Graph& training, std::map<Slot, std::string> buffers) {
    Graph graph = training;
    std::set<Slot> left_out;
    std::vector<Node> nodes;
    for (Node& node : graph.nodes) {
      if (node.body != nullptr) {
        std::map<Slot, std::string> inner;
        for (size_t i = 0; i < node.arguments.size(); ++i)
          if (!node.arguments[i].slots.empty() && buffers.contains(node.arguments[i].slots[0]))
            inner[node.body->inputs[i]] = buffers[node.arguments[i].slots[0]];
        node.body = std::make_shared<const Graph>(evaluated(*node.body, inner));
      } else if (node.handle && counts_batches(node, buffers)) {
        left_out.insert(node.outputs.begin(), node.outputs.end());
        continue;
      } else if (node.handle) {
        evaluate(node, buffers);
      }
      for (const Argument& argument : node.arguments)
        for (const Slot slot : argument.slots)
          if (slot != kNoSlot && left_out.contains(slot)) note(node, "reads the number of batches");
      nodes.push_back(std::move(node));
    }
    graph.nodes = std::move(nodes);
    return graph;
  }

 private:
  void note(const Node& node, const std::string& what) {
    if (why_not.empty()) why_not = node.where() + " " + what;
  }

  /// A norm counts the batches that it saw.
  static bool counts_batches(const Node& node, const std::map<Slot, std::string>& buffers) {
    if (node.target != "aten.add_.Tensor" || node.arguments[0].slots.empty()) return false;
    const auto found = buffers.find(node.arguments[0].slots[0]);
    return found != buffers.end() && found->second.ends_with("num_batches_tracked");
  }

  void evaluate(Node& node, std::map<Slot, std::string>& buffers) {
    const bool has_switch = switch_off(node);
    if (!has_switch && node.handle->hasTag(at::Tag::nondeterministic_seeded)) note(node, "draws random numbers");
    const Effects effects = effects_of(node);
    for (const Argument& argument : node.arguments) {
      if (argument.slots.empty()) continue;
      const auto buffer = buffers.find(argument.slots[0]);
      if (buffer == buffers.end()) continue;
      if (std::ranges::count(effects.writes, argument.slots[0]) > 0)
        note(node, "writes to the buffer " + buffer->second);
      const std::string name = buffer->second;
      for (size_t j = 0; j < node.outputs.size() && j < node.handle->schema().returns().size(); ++j)
        if (node.handle->schema().returns()[j].alias_info() != nullptr)
          buffers[node.outputs[j]] = name;  // a view of it
    }
  }

  /// Sets the arguments by which modules tell an operator that they train; false where it has none.
  static bool switch_off(Node& node) {
    bool has_switch = false;
    for (const char* flag : kFlags) {
      const auto place = place_of(*node.handle, flag), statistics = place_of(*node.handle, "running_mean");
      if (!place) continue;
      has_switch = true;
      const bool has_none = statistics && node.arguments[*statistics].kind == Argument::Kind::constant;
      if (!has_none) node.arguments[*place] = {.constant = false};  // without statistics it uses those of the batch
    }
    if (const auto place = place_of(*node.handle, "dropout_p")) {
      has_switch = true;
      node.arguments[*place] = {.constant = 0.0};
    }
    return has_switch;
  }
};

}  // namespace

std::string without_dropout(const Graph& graph) {
  bool drops = false;
  std::string first;
  find_dropout(graph, drops, first);
  return drops ? "" : first;
}

Evaluation evaluation_of(const OuterGraph& training) {
  std::map<Slot, std::string> buffers;
  for (size_t i = 0; i < training.inputs.size(); ++i)
    if (training.inputs[i].kind == GraphInput::Kind::buffer)
      buffers[training.graph.inputs[i]] = training.inputs[i].name;
  Evaluator evaluator;
  Evaluation evaluation{evaluator.evaluated(training.graph, buffers)};
  evaluation.why_not = evaluator.why_not;
  if (evaluation.why_not.empty() && std::ranges::any_of(training.outputs, &GraphOutput::is_buffer))
    evaluation.why_not = "its graph gives new values of buffers";
  return evaluation;
}

}  // namespace adjoin::program
