#include <algorithm>

#include "adjoin/program/archive.hpp"
#include "adjoin/program/check.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/program/program_parts.hpp"
#include "adjoin/program/read_graph.hpp"
#include "adjoin/program/run.hpp"
#include "adjoin/program/weights.hpp"

namespace adjoin::program {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

std::string graph_record(const std::string& name) {
  return "models/" + name + ".json";
}

OuterGraph read_checked_graph(const Archive& archive, const std::string& name) {
  const std::string text = archive.text(graph_record(name));
  try {
    OuterGraph outer = read_graph(text);
    check(outer.graph);
    return outer;
  } catch (const std::exception& error) {
    archive.refuse(graph_record(name) + ": " + first_line_of(error));
  }
}

Tensors read_if_there(const Archive& archive, const std::string& configuration) {
  return archive.contains(configuration) ? read_tensors(archive, configuration) : Tensors();
}

std::vector<std::string> user_inputs(const OuterGraph& outer) {
  std::vector<std::string> names;
  for (const GraphInput& input : outer.inputs)
    if (input.kind == GraphInput::Kind::user) names.push_back(input.name);
  return names;
}

/// Checks that each tensor that the graph takes is there, and is what the graph declares.
void check_weights(const Archive& archive, const OuterGraph& outer, const Tensors& tensors, const Tensors& constants) {
  for (size_t i = 0; i < outer.inputs.size(); ++i) {
    const GraphInput& input = outer.inputs[i];
    if (input.kind == GraphInput::Kind::user || input.kind == GraphInput::Kind::constant) continue;
    const bool is_own = input.kind == GraphInput::Kind::constant_tensor && constants.contains(input.name);
    const Tensors& where = is_own ? constants : tensors;
    const auto found = where.find(input.name);
    if (found == where.end()) archive.refuse("it lacks the tensor " + in_quotes(input.name));
    const auto& declared = outer.graph.values[static_cast<size_t>(outer.graph.inputs[i])].tensor;
    const at::Tensor& tensor = found->second;
    const bool fits = declared && declared->type == tensor.scalar_type() &&
                      std::ranges::equal(declared->sizes, tensor.sizes(), [](const Size& size, int64_t given) {
                        return size.is_fixed && *size.example == given;
                      });
    if (!fits) archive.refuse("the tensor " + in_quotes(input.name) + " is not as the graph declares it");
  }
  for (const GraphOutput& output : outer.outputs) {
    const bool is_there = std::ranges::any_of(outer.inputs, [&](const GraphInput& input) {
      return input.kind == GraphInput::Kind::buffer && input.name == output.name;
    });
    if (output.is_buffer && !is_there)
      archive.refuse("it writes to the buffer " + in_quotes(output.name) + ", which it lacks");
  }
}

}  // namespace

std::shared_ptr<Program> load_program(const std::filesystem::path& path) {
  const Archive archive(path);
  if (!archive.contains(graph_record("model")))
    archive.refuse("it holds no program of torch.export: there is no " + graph_record("model") + " in it");
  Program::Parts parts{.path = path.string(), .training = read_checked_graph(archive, "model")};
  parts.tensors = read_tensors(archive, "data/weights/model_weights_config.json");
  parts.constants = read_if_there(archive, "data/constants/model_constants_config.json");
  for (const auto& [name, tensor] : parts.constants)
    parts.tensors.emplace(name, tensor);  // buffers that are in no state_dict
  check_weights(archive, parts.training, parts.tensors, parts.constants);
  if (archive.contains(graph_record("eval"))) {
    parts.evaluation = read_checked_graph(archive, "eval");
    parts.evaluation_constants = read_if_there(archive, "data/constants/eval_constants_config.json");
    check_weights(archive, *parts.evaluation, parts.tensors, parts.evaluation_constants);
    if (user_inputs(*parts.evaluation) != user_inputs(parts.training))
      archive.refuse("its graphs of training and of eval mode take other inputs");
  }
  try {
    return std::make_shared<Program>(std::move(parts));
  } catch (const c10::Error& error) {
    archive.refuse("its parameters have names that no module has: " + first_line_of(error));
  }
}

}  // namespace adjoin::program
