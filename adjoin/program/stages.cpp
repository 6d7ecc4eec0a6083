#include "adjoin/program/stages.hpp"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/program/dataflow.hpp"
#include "adjoin/program/fit.hpp"
#include "adjoin/program/program_parts.hpp"
#include "adjoin/program/recompute.hpp"

namespace adjoin::program {
namespace {

using parallel::Bundle, parallel::Child;
using Borders = std::vector<int64_t>;  // the first node of each stage, and the end

std::set<Slot> weight_slots(const Program::Bound& bound) {
  std::set<Slot> slots;
  for (const auto& [slot, tensor] : bound.weights) slots.insert(slot);
  return slots;
}

/// The inputs of a graph that depend on no parameter.
std::set<Slot> free_inputs(const OuterGraph& outer) {
  std::set<Slot> free;
  for (size_t i = 0; i < outer.inputs.size(); ++i)
    if (outer.inputs[i].kind != GraphInput::Kind::parameter) free.insert(outer.graph.inputs[i]);
  return free;
}

/// The module's names of the parameters and buffers that some slots are.
std::set<std::string> names_of(const Program& net, const Program::Bound& bound, const std::set<Slot>& slots) {
  std::map<const void*, std::string> names;
  for (const auto& tensors : {net.named_parameters(), net.named_buffers()})
    for (const auto& item : tensors) names[item.value().unsafeGetTensorImpl()] = item.key();
  std::set<std::string> found;
  for (const auto& [slot, tensor] : bound.weights)
    if (const auto name = names.find(tensor.unsafeGetTensorImpl()); name != names.end() && slots.contains(slot))
      found.insert(name->second);
  return found;
}

std::set<Slot> slots_read(const Graph& graph) {
  std::set<Slot> slots;
  for (const Node& node : graph.nodes)
    for (const Argument& argument : node.arguments) slots.insert(argument.slots.begin(), argument.slots.end());
  for (const Argument& output : graph.outputs) slots.insert(output.slots.begin(), output.slots.end());
  return slots;
}

/// The nodes of one mode that are a stage.
struct StagePart {
  Part part;
  bool is_last;
  std::set<std::string> weights;
};

c10::IValue number_of(const at::Tensor& x) {
  return whole(x).item();
}

Bundle run_part(const Program& net, const StagePart& stage, const Bundle& received, const Bundle& micro_batch) {
  const Program::Bound& bound = net.bound(net.is_training());
  const std::vector<Declared>& declared = bound.graph->values;
  std::vector<c10::IValue> inputs;
  for (const auto& [name, x] : micro_batch.items()) {
    const bool is_number = inputs.size() < net.inputs().size() && !net.inputs()[inputs.size()].tensor;
    inputs.push_back(is_number ? number_of(x) : c10::IValue(x));
  }
  net.check(bound, inputs);
  Values values = bound.begin(inputs);
  for (size_t i = 0; i < stage.part.takes.size(); ++i) {
    const auto slot = static_cast<size_t>(stage.part.takes[i]);
    const at::Tensor& x = received.items().at(i).tensor;
    values[slot] = declared[slot].tensor ? c10::IValue(x) : number_of(x);
  }
  run(stage.part.graph, values, bound.device());
  if (stage.is_last) return bound.results(values);
  std::vector<Bundle::Item> given;
  for (const Slot slot : stage.part.gives) {
    const c10::IValue& value = values[static_cast<size_t>(slot)];
    given.push_back({declared[static_cast<size_t>(slot)].name, value.isTensor() ? value.toTensor() : as_tensor(value)});
  }
  return given;
}

/// The graph of one mode between borders.
std::vector<std::shared_ptr<const StagePart>> parts_of(const Program& net, bool is_training, const Dataflow& flow,
                                                       const Borders& borders) {
  const Program::Bound& bound = net.bound(is_training);
  const std::set<Slot> weights = weight_slots(bound);
  std::vector<std::shared_ptr<const StagePart>> parts;
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    const std::string why = flow.why_not(static_cast<size_t>(borders[i]));
    require(why.empty(), [&] { return net.path() + ": it cannot be cut there, as " + why; });
    StagePart stage{
        flow.part(static_cast<size_t>(borders[i]), static_cast<size_t>(borders[i + 1])), i + 2 == borders.size(), {}};
    stage.weights = names_of(net, bound, slots_read(stage.part.graph));
    if (is_training)
      stage.part.graph = with_recomputed(stage.part.graph, weights, net.recomputed_modules(), /*all=*/false);
    parts.push_back(std::make_shared<const StagePart>(std::move(stage)));
  }
  return parts;
}

/// In the graph of eval mode, borders with the same weights between them.
Borders same_borders(const Program& net, const std::vector<std::shared_ptr<const StagePart>>& training,
                     const Dataflow& flow) {
  const Program::Bound& bound = net.bound(false);
  Borders borders{0};
  std::set<std::string> before = training[0]->weights;
  for (size_t stage = 1; stage < training.size(); ++stage) {
    auto border = static_cast<size_t>(borders.back());
    const auto stays = [&](size_t node) {
      const auto& reads = flow.effects(node).reads;
      return std::ranges::includes(before, names_of(net, bound, {reads.begin(), reads.end()}));
    };
    while (border < flow.nodes() && stays(border)) ++border;
    borders.push_back(static_cast<int64_t>(border));
    before.insert(training[stage]->weights.begin(), training[stage]->weights.end());
  }
  borders.push_back(static_cast<int64_t>(flow.nodes()));
  return borders;
}

std::vector<Child> children(const std::shared_ptr<Program>& net, const Dataflow& flow, const Borders& borders) {
  const OuterGraph& outer = net->graph();
  require(borders.size() == 2 || std::ranges::none_of(outer.outputs, &GraphOutput::is_buffer),
          [&] { return net->path() + ": it cannot be cut, as its graph gives new values of buffers"; });
  const auto training = parts_of(*net, true, flow, borders);
  std::vector<std::shared_ptr<const StagePart>> evaluation(training.size());
  if (!net->eval_mode().starts_with("none")) {
    const Program::Bound& bound = net->bound(false);
    const Dataflow of_eval(*bound.graph, free_inputs(*bound.outer));
    evaluation = parts_of(*net, false, of_eval, same_borders(*net, training, of_eval));
  }
  std::set<std::string> unused;
  for (const auto& named : parallel::tensors_of(*net)) unused.insert(named.name);
  std::vector<Child> children;
  for (size_t i = 0; i < training.size(); ++i) {
    std::set<std::string> weights = training[i]->weights;
    if (evaluation[i]) weights.insert(evaluation[i]->weights.begin(), evaluation[i]->weights.end());
    for (const std::string& name : weights) unused.erase(name);
    Child child{.name = "nodes " + std::to_string(borders[i]) + " to " + std::to_string(borders[i + 1] - 1),
                .weights = {weights.begin(), weights.end()},
                .cost = 1};
    child.with_micro_batch = [net, training = training[i], evaluation = evaluation[i]](const Bundle& received,
                                                                                       const Bundle& micro_batch) {
      return run_part(*net, net->is_training() || !evaluation ? *training : *evaluation, received, micro_batch);
    };
    child.draws_before = training[i]->part.draws_before;
    children.push_back(std::move(child));
  }
  children[0].weights.insert(children[0].weights.end(), unused.begin(), unused.end());
  return children;
}

/// The seconds of each node. Buffers and LibTorch's generator stay as they are.
std::vector<double> measured(const Program& net, const std::vector<c10::IValue>& example) {
  const at::NoGradGuard no_gradient;
  const Program::Bound& bound = net.bound(true);
  at::Generator generator = at::globalContext().defaultGenerator(bound.device());
  const at::Tensor state = generator.get_state();
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& buffer : net.buffers()) buffers.push_back(buffer.clone());
  const std::vector<Node>& nodes = net.graph().graph.nodes;
  std::vector<double> seconds(nodes.size(), std::numeric_limits<double>::infinity());
  for (int trial = 0; trial < 3; ++trial) {  // the first one also makes what LibTorch keeps
    Values values = bound.begin(example);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Graph one{.nodes = {nodes[i]}};
      const auto begin = std::chrono::steady_clock::now();
      run(one, values, bound.device());
      seconds[i] =
          std::min(seconds[i], std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) net.buffers()[i].copy_(buffers[i]);
  generator.set_state(state);
  return seconds;
}

/// Near equal sums of costs, where the fewest bytes are alive, and between modules that are recomputed.
Borders balanced(const Program& net, const Dataflow& flow, const std::vector<double>& costs, int count) {
  constexpr double kSlack = 0.1;  // of a stage's cost
  std::vector<std::string> modules;
  for (const Node& node : net.graph().graph.nodes) modules.push_back(module_named(node, net.recomputed_modules()));
  std::vector<double> until{0};
  for (const double cost : costs) until.push_back(until.back() + cost);
  Borders borders{0};
  for (int stage = 1; stage < count; ++stage) {
    const double wanted = until.back() * stage / count, slack = kSlack * until.back() / count;
    std::optional<size_t> best;
    std::tuple<bool, double, double> least;
    for (auto border = static_cast<size_t>(borders.back()) + 1;
         border + static_cast<size_t>(count - stage) <= flow.nodes(); ++border) {
      const double away = std::abs(until[border] - wanted);
      const double bytes = away <= slack ? static_cast<double>(flow.bytes_alive(border)) : HUGE_VAL;
      const std::string& module = modules[border];
      const std::tuple found(!module.empty() && module == modules[border - 1], bytes, away);
      if ((best && found >= least) || !flow.why_not(border).empty()) continue;
      best = border;
      least = found;
    }
    require(best.has_value(), [&] { return "program: it cannot be cut into " + counted(count, "stage"); });
    borders.push_back(static_cast<int64_t>(*best));
  }
  borders.push_back(static_cast<int64_t>(flow.nodes()));
  return borders;
}

int64_t border_at(const Graph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.module == name || node.module.starts_with(name + ".")) return static_cast<int64_t>(i);
    for (const Slot slot : node.outputs)
      if (slot != kNoSlot && graph.values[static_cast<size_t>(slot)].name == name) return static_cast<int64_t>(i) + 1;
  }
  throw InvalidArgument("program: expected names of modules or values, got \"" + name + "\"");
}

}  // namespace

std::vector<int64_t> stage_borders(const Program& net, int count, const std::vector<c10::IValue>& example) {
  const auto nodes = static_cast<int64_t>(net.graph().graph.nodes.size());
  require(count >= 1 && count <= nodes, [&] {
    return net.path() + ": it has " + std::to_string(nodes) + " operators, and cannot be cut into " +
           counted(count, "stage");
  });
  if (count == 1) return {0, nodes};
  net.check(net.bound(true), example);
  return balanced(net, Dataflow(net.graph().graph, free_inputs(net.graph())), measured(net, example), count);
}

std::vector<Child> stages_between(const std::shared_ptr<Program>& net, const std::vector<int64_t>& borders) {
  return children(net, Dataflow(net->graph().graph, free_inputs(net->graph())), borders);
}

std::vector<Child> stages(const std::shared_ptr<Program>& net, int count, const Communicator& world,
                          const std::vector<c10::IValue>& example) {
  std::vector<int64_t> borders(static_cast<size_t>(count) + 1);
  if (world.rank() == 0) borders = stage_borders(*net, count, example);
  world.broadcast(buffer(borders), /*root=*/0);
  return stages_between(net, borders);
}

std::vector<Child> stages_at(const std::shared_ptr<Program>& net, const std::vector<std::string>& names) {
  const Graph& graph = net->graph().graph;
  Borders borders{0, static_cast<int64_t>(graph.nodes.size())};
  for (const std::string& name : names) borders.push_back(border_at(graph, name));
  std::ranges::sort(borders);
  require(std::ranges::adjacent_find(borders) == borders.end(),
          [&] { return "program: expected cuts with operators between them, got " + joined(names); });
  return stages_between(net, borders);
}

}  // namespace adjoin::program
