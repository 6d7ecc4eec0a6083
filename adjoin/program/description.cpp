#include "adjoin/program/description.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>

#include "adjoin/parallel/automatic.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/program/operators.hpp"
#include "adjoin/program/program.hpp"

namespace adjoin::program {
namespace {

std::string runs(const Node& node) {
  return node.kind == Node::Kind::call ? way_of(*node.handle) : "on every rank";  // sizes and modes
}

void count_operators(const Graph& graph, std::map<std::string, Description::Operator>& operators) {
  for (const Node& node : graph.nodes) {
    auto& found = operators.try_emplace(node.target, Description::Operator{node.target, 0, runs(node)}).first->second;
    ++found.count;
    if (node.body != nullptr) count_operators(*node.body, operators);
  }
}

std::vector<Description::Tensor> described(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  std::vector<Description::Tensor> described;
  for (const auto& item : tensors) {
    Description::Tensor tensor{item.key(), c10::toString(item.value().scalar_type()), {}};
    for (const int64_t size : item.value().sizes()) tensor.sizes.push_back(std::to_string(size));
    described.push_back(std::move(tensor));
  }
  return described;
}

}  // namespace

Description describe(const std::string& path) {
  const auto net = load_program(path);
  Description description;
  description.path = path;
  for (const Program::Input& input : net->inputs())
    description.inputs.push_back(
        input.tensor ? Description::Tensor{input.name, c10::toString(input.tensor->type), size_texts(*input.tensor)}
                     : Description::Tensor{input.name, "number", {}});
  for (const GraphOutput& output : net->graph().outputs)
    if (!output.is_buffer) description.outputs.push_back(output.name);
  description.parameters = described(net->named_parameters());
  description.buffers = described(net->named_buffers());
  description.shared = net->shared_names();
  for (const at::Tensor& parameter : net->parameters()) description.elements += parameter.numel();
  std::map<std::string, Description::Operator> operators;
  count_operators(net->graph().graph, operators);
  for (const auto& [name, found] : operators) description.operators.push_back(found);
  description.eval_mode = net->eval_mode();
  return description;
}

FoundCuts cuts_of(const std::string& path, int dp, int tp) {
  const auto net = load_program(path);
  std::vector<c10::IValue> values;
  std::vector<at::Tensor> inputs;
  parallel::AutomaticOptions options{.weights_over = {"tp"}};
  for (size_t i = 0; i < net->graph().inputs.size(); ++i) {
    if (net->graph().inputs[i].kind != GraphInput::Kind::user) continue;
    const Declared& declared = net->graph().graph.values[static_cast<size_t>(net->graph().graph.inputs[i])];
    if (declared.tensor) {
      const auto sizes = example_sizes(*declared.tensor);
      require(sizes.has_value(), [&] { return path + ": it does not say with which sizes it was exported"; });
      inputs.push_back(at::zeros(*sizes, declared.tensor->type));
      values.emplace_back(inputs.back());
      options.inputs.push_back({dp > 1 ? "samples over dp" : ""});
    } else {
      require(declared.number && declared.number->example,
              [&] { return path + ": it does not say with which numbers it was exported"; });
      values.emplace_back(*declared.number->example);
    }
  }
  const GridShape shape({{"dp", dp}, {"tp", tp}});
  const auto search = [&] {
    return parallel::CutSearch(
        parallel::tensors_of(*net), shape, inputs, [&] { net->run(values); }, options);
  };
  parallel::CutSearch with_gradients = search();
  const parallel::Cuts cuts = with_gradients.best();
  FoundCuts found;
  found.inputs = cuts.inputs;
  const double all = with_gradients.cost(cuts).moved;
  for (const at::Tensor& parameter : net->parameters()) parameter.requires_grad_(false);
  found.of_operations = search().cost(cuts).moved;
  found.of_gradients = all - found.of_operations;
  for (const auto& item : net->named_parameters()) {
    const auto cut = std::ranges::find_if(
        cuts.weights, [&](const auto& one) { return parallel::pattern_names(one.first, item.key()); });
    // A pattern may name a bias too, which lacks the dim that is cut.
    const bool is_cut = std::ranges::any_of(parallel::layout_by(cuts, {item.key(), item.value()}, shape).cuts(),
                                            [](const Layout::Cut& one) { return !one.axes.empty(); });
    found.weights.emplace_back(item.key(), is_cut ? cut->second : "");
  }
  return found;
}

}  // namespace adjoin::program
