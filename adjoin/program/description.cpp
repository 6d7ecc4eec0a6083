#include "adjoin/program/description.hpp"

#include <map>

#include "adjoin/nn/rules/operation.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/program/program.hpp"

namespace adjoin::program {
namespace {

std::string way_of(const Node& node) {
  if (node.kind != Node::Kind::call) return "on every rank";  // sizes and modes
  if (nn::rules::known_rule(*node.handle) != nullptr) return "by a rule";
  return nn::rules::is_composite(*node.handle) ? "as its parts" : "gathered";
}

void count_operators(const Graph& graph, std::map<std::string, Description::Operator>& operators) {
  for (const Node& node : graph.nodes) {
    auto& found = operators.try_emplace(node.target, Description::Operator{node.target, 0, way_of(node)}).first->second;
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

}  // namespace adjoin::program
