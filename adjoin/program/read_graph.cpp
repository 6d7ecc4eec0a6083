#include "adjoin/program/read_graph.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "adjoin/program/dataflow.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/program/fit.hpp"
#include "adjoin/program/numbers.hpp"
#include "adjoin/program/operators.hpp"

namespace adjoin::program {
namespace {

constexpr int kDeepest = 16;  // graphs in graphs
constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";

at::MemoryFormat memory_format(int64_t number) {
  constexpr at::MemoryFormat kFormats[] = {at::MemoryFormat::Contiguous, at::MemoryFormat::Contiguous,
                                           at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d,
                                           at::MemoryFormat::Preserve};
  require(number >= 0 && number < std::ssize(kFormats), "the memory format is unknown");
  return kFormats[number];
}

constexpr int64_t kStrided = 7;

bool is_number(const std::string& kind) {
  return kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool";
}

Argument constant(c10::IValue value) {
  return {.constant = std::move(value)};
}

/// Operators that only compare types and sizes, which are compared when the file is read, or say what a size can be.
bool checks_alone(std::string_view target) {
  return target == "torch.ops.aten._assert_tensor_metadata.default" ||
         target.starts_with("torch.ops.aten.sym_constrain_range");
}

/// Reads one graph; graphs in it are read by others.
class Reader {
 public:
  Reader(const Json& json, int depth) : json_(json), depth_(depth) {
    require(depth < kDeepest, "graphs lie in graphs too deeply");
  }

  Graph read() {
    for (const Json& input : list(json_, "inputs")) graph_.inputs.push_back(input_of(input));
    for (const Json& node : list(json_, "nodes")) {
      const std::string target = text(node, "target");
      if (checks_alone(target)) continue;
      try {
        graph_.nodes.push_back(read_node(node, target));
      } catch (const InvalidArgument& error) {
        throw InvalidArgument("node " + std::to_string(graph_.nodes.size()) + " (" + target + "): " + error.what());
      }
    }
    for (const Json& output : list(json_, "outputs")) graph_.outputs.push_back(read_argument(output));
    find_last_uses(graph_);
    return std::move(graph_);
  }

 private:
  Slot input_of(const Json& json) {
    const auto& [kind, value] = only(json);
    if (kind == "as_tensor") return made(text(value, "name"));
    return is_number(kind) && value.contains("as_name") ? made(text(value, "as_name")) : kNoSlot;
  }

  Slot made(const std::string& name) {
    const auto slot = static_cast<Slot>(graph_.values.size());
    require(slots_.emplace(name, slot).second, [&] { return "two values are named " + in_quotes(name); });
    Declared declared{.name = name};
    if (const Json* spec = find(json_, "tensor_values", name)) declared.tensor = tensor_spec(*spec);
    if (const Json* size = find(json_, "sym_int_values", name)) declared.number = size_of(*size);
    graph_.values.push_back(std::move(declared));
    return slot;
  }
  Slot known(const std::string& name) const {
    const auto found = slots_.find(name);
    require(found != slots_.end(), [&] { return "the value " + in_quotes(name) + " is read before it is made"; });
    return found->second;
  }
  Argument value(const std::string& name) const { return {.kind = Argument::Kind::value, .slots = {known(name)}}; }

  Argument read_argument(const Json& json) const {
    const auto& [kind, value] = only(json);
    if (kind == "as_none") return constant({});
    if (kind == "as_tensor") return this->value(text(value, "name"));
    if (kind == "as_tensors" || kind == "as_optional_tensors") return tensors(value, kind == "as_optional_tensors");
    if (kind == "as_optional_tensor")
      return value.contains("as_tensor") ? this->value(text(value["as_tensor"], "name")) : constant({});
    if (kind == "as_int") return constant(integer(value));
    if (kind == "as_float") return constant(real(value));
    if (kind == "as_bool") return constant(boolean(value));
    if (kind == "as_string") return constant(string(value));
    if (kind == "as_ints") return constant(listed<int64_t>(value, integer));
    if (kind == "as_floats") return constant(listed<double>(value, real));
    if (kind == "as_bools") return constant(listed<bool>(value, boolean));
    if (kind == "as_sym_ints") return sizes(value);
    if (is_number(kind)) {
      const auto& [form, number] = only(value);
      return form == "as_name" ? this->value(string(number)) : read_argument(value);
    }
    if (kind == "as_scalar_type") return constant(static_cast<int64_t>(element_type(value)));
    if (kind == "as_memory_format") return constant(static_cast<int64_t>(memory_format(integer(value))));
    if (kind == "as_layout") {
      require(integer(value) == kStrided, "a layout of memory other than strided is not supported");
      return constant(static_cast<int64_t>(at::kStrided));
    }
    if (kind == "as_device") return {.kind = Argument::Kind::device};
    throw InvalidArgument("an argument of the form " + in_quotes(kind) + " is not supported");
  }

  template <class Number>
  static c10::List<Number> listed(const Json& json, Number (*read)(const Json&)) {
    c10::List<Number> numbers;
    for (const Json& number : json) numbers.push_back(read(number));
    return numbers;
  }

  Argument tensors(const Json& json, bool are_optional) const {
    Argument argument{.kind = are_optional ? Argument::Kind::optional_tensors : Argument::Kind::tensors};
    for (const Json& tensor : json) {
      if (!are_optional)
        argument.slots.push_back(known(text(tensor, "name")));
      else
        argument.slots.push_back(tensor.contains("as_tensor") ? known(text(tensor["as_tensor"], "name")) : kNoSlot);
    }
    return argument;
  }

  Argument sizes(const Json& json) const {
    Argument argument{.kind = Argument::Kind::integers};
    for (const Json& size : json) {
      const bool is_value = size.contains("as_name");
      argument.slots.push_back(is_value ? known(text(size, "as_name")) : kNoSlot);
      argument.integers.push_back(is_value ? 0 : integer(only(size).second));
    }
    return argument;
  }

  Node read_node(const Json& json, const std::string& target) {
    Node node{.target = target, .module = module_of(json)};
    if (const auto numbers = number_operation(target); numbers.function != nullptr) {
      node.kind = Node::Kind::numbers;
      node.function = numbers.function;
      read_arguments(json, node);
      require(node.arguments.size() == numbers.operands,
              [&] { return "expected " + std::to_string(numbers.operands) + " arguments"; });
    } else if (target.starts_with(kHigherOrder)) {
      read_mode(json, target.substr(kHigherOrder.size()), node);
    } else if (target == "torch.ops.aten._assert_scalar.default") {
      node.kind = Node::Kind::check;
      read_arguments(json, node);
      require(node.arguments.size() == 2, "expected 2 arguments");
    } else {
      read_call(json, node);
    }
    read_outputs(list(json, "outputs"), node);
    return node;
  }

  void read_arguments(const Json& json, Node& node) const {
    for (const Json& input : list(json, "inputs")) node.arguments.push_back(read_argument(object(input, "arg")));
  }

  /// wrap_with_set_grad_enabled(enabled, graph, …) and wrap_with_autocast(device, type, enabled, cached, graph, …).
  void read_mode(const Json& json, const std::string& name, Node& node) {
    const bool is_autocast = name == "wrap_with_autocast";
    require(is_autocast || name == "wrap_with_set_grad_enabled",
            "control flow and other operators of graphs are not supported, only modes of gradients and autocast");
    node.kind = is_autocast ? Node::Kind::autocast_mode : Node::Kind::grad_mode;
    std::vector<c10::IValue> before;
    for (const Json& input : list(json, "inputs")) {
      const auto& [kind, value] = only(object(input, "arg"));
      if (kind == "as_graph" && node.body == nullptr) {
        node.body = std::make_shared<const Graph>(Reader(object(value, "graph"), depth_ + 1).read());
      } else if (node.body != nullptr) {
        node.arguments.push_back(read_argument(input["arg"]));
      } else {
        before.push_back(read_argument(input["arg"]).constant);
      }
    }
    const size_t flag = is_autocast ? 2 : 0;
    require(node.body != nullptr && before.size() == (is_autocast ? 4 : 1) && before[flag].isBool(),
            "the arguments of a mode do not fit");
    require(node.body->inputs.size() == node.arguments.size(),
            "a graph gets another number of arguments than it takes");
    node.enabled = before[flag].toBool();
    require(!is_autocast || before[1].isInt() || before[1].isNone(), "the type of autocast is none");
    if (is_autocast) node.type = before[1].isInt() ? static_cast<at::ScalarType>(before[1].toInt()) : at::kBFloat16;
  }

  void read_call(const Json& json, Node& node) {
    node.handle = operator_named(node.target);
    node.target = short_name(*node.handle);
    if (node.target.starts_with("aten.sym_")) node.kind = Node::Kind::size;
    std::map<std::string, const Json*> given;
    for (const Json& input : list(json, "inputs"))
      require(given.emplace(text(input, "name"), &object(input, "arg")).second, "an argument is given twice");
    bool has_tensors = false;
    for (const c10::Argument& wanted : node.handle->schema().arguments()) {
      const auto found = given.find(wanted.name());
      if (found == given.end()) {
        require(wanted.default_value().has_value(), [&] { return "the argument " + wanted.name() + " is missing"; });
        node.arguments.push_back(constant(*wanted.default_value()));
      } else {
        node.arguments.push_back(read_argument(*found->second));
        given.erase(found);
      }
      Argument& argument = node.arguments.back();
      fit(wanted, argument);
      if (argument.kind != Argument::Kind::device && wanted.name() == "device" && !has_tensors)
        argument = {.kind = Argument::Kind::device};  // what is made from numbers
      has_tensors = has_tensors || argument.is_tensor || argument.kind == Argument::Kind::tensors;
    }
    require(given.empty(), [&] { return "the operator has no argument " + in_quotes(given.begin()->first); });
  }

  void read_outputs(const Json& json, Node& node) {
    for (const Json& output : json) {
      const auto& [kind, value] = only(output);
      if (kind == "as_tensor") {
        node.outputs.push_back(made(text(value, "name")));
      } else if (kind == "as_tensors") {
        require(json.size() == 1, "an operator gives a list and more");
        node.gives_list = true;
        for (const Json& tensor : value) node.outputs.push_back(made(text(tensor, "name")));
      } else if (is_number(kind)) {
        node.outputs.push_back(made(text(value, "as_name")));
      } else {
        require(kind == "as_none", [&] { return "a result of the form " + in_quotes(kind) + " is not supported"; });
        node.outputs.push_back(kNoSlot);
      }
    }
    check_number_of_outputs(node);
  }
  static void check_number_of_outputs(const Node& node) {
    const size_t outputs = node.outputs.size();
    bool fits = true;
    if (node.body != nullptr)
      fits = outputs == node.body->outputs.size();
    else if (node.kind == Node::Kind::size || node.kind == Node::Kind::numbers)
      fits = outputs == 1 && !node.gives_list;
    else if (node.kind == Node::Kind::call && !node.gives_list)
      fits = outputs <= node.handle->schema().returns().size();
    require(fits, "the node has another number of results than its operator");
  }

  /// "L__self__,,Net;L__self___block,encoder.block,Block": the name in the last of them.
  static std::string module_of(const Json& json) {
    const Json* stack = find(json, "metadata", "nn_module_stack");
    if (stack == nullptr || !stack->is_string()) return "";
    const std::string& text = stack->get_ref<const std::string&>();
    const size_t last = text.rfind(';'), begin = text.find(',', last == text.npos ? 0 : last);
    const size_t end = begin == text.npos ? text.npos : text.find(',', begin + 1);
    if (end == text.npos || text.starts_with("_empty") || !is_one_line(text)) return "";
    return text.substr(begin + 1, end - begin - 1);
  }

  const Json& json_;
  const int depth_;
  Graph graph_;
  std::map<std::string, Slot> slots_;
};

/// Names of what Python's function returns, by the tree in which it returns them: "logits", "0", "states.1"; "" for one value alone.
void name_leaves(const Json& tree, const std::string& name, int depth, std::vector<std::string>& names) {
  require(depth < 4 * kDeepest && names.size() < 1 << 16, "what the module returns lies too deeply");
  const Json& children = list(tree, "children_spec");
  if (tree.contains("type") && tree["type"].is_null()) {
    names.push_back(name);
    return;
  }
  const Json keys = tree.contains("context") && tree["context"].is_string()
                        ? Json::parse(tree["context"].get_ref<const std::string&>(), nullptr, false)
                        : Json();
  const bool has_keys = keys.is_array() && keys.size() == children.size();
  for (size_t i = 0; i < children.size(); ++i) {
    const std::string key = has_keys && keys[i].is_string() ? keys[i].get<std::string>() : std::to_string(i);
    name_leaves(children[i], name.empty() ? key : name + "." + key, depth + 1, names);
  }
}

std::vector<std::string> output_names(const Json& module) {
  std::vector<std::string> names;
  for (const Json& entry : list(module, "module_call_graph")) {
    if (text(entry, "fqn") != "" || object(entry, "signature").is_null()) continue;
    const Json tree = Json::parse(text(entry["signature"], "out_spec"), nullptr, false);
    if (tree.is_array() && tree.size() == 2) name_leaves(tree[1], "", 0, names);
    break;
  }
  return names;
}

GraphInput graph_input(const Json& json) {
  using Kind = GraphInput::Kind;
  const auto& [kind, value] = only(json);
  if (kind == "parameter") return {Kind::parameter, text(value, "parameter_name")};
  if (kind == "buffer") return {Kind::buffer, text(value, "buffer_name"), boolean(object(value, "persistent"))};
  if (kind == "tensor_constant") return {Kind::constant_tensor, text(value, "tensor_constant_name")};
  if (kind == "constant_input") return {Kind::constant, text(value, "name")};
  require(kind == "user_input", [&] { return "an input of the kind " + in_quotes(kind) + " is not supported"; });
  const auto& [form, argument] = only(object(value, "arg"));
  if (form == "as_tensor") return {Kind::user, text(argument, "name")};
  if (form == "as_sym_int" && argument.contains("as_name")) return {Kind::user, text(argument, "as_name")};
  return {Kind::constant, ""};
}

void read_signature(const Json& module, OuterGraph& outer) {
  const Json& signature = object(module, "signature");
  for (const Json& input : list(signature, "input_specs")) outer.inputs.push_back(graph_input(input));
  require(outer.inputs.size() == outer.graph.inputs.size(),
          "the signature has another number of inputs than the graph");
  for (size_t i = 0; i < outer.inputs.size(); ++i)
    require((outer.graph.inputs[i] == kNoSlot) == (outer.inputs[i].kind == GraphInput::Kind::constant), [&] {
      return "the input " + in_quotes(outer.inputs[i].name) + " is a value in one place and a constant in another";
    });

  const std::vector<std::string> names = output_names(module);
  size_t next = 0;
  for (const Json& output : list(signature, "output_specs")) {
    const auto& [kind, value] = only(output);
    if (kind == "buffer_mutation") {
      outer.outputs.push_back({text(value, "buffer_name"), true});
      continue;
    }
    require(kind == "user_output" || kind == "loss_output",
            [&] { return "an output of the kind " + in_quotes(kind) + " is not supported"; });
    outer.outputs.push_back({next < names.size() && is_one_line(names[next]) ? names[next] : std::to_string(next)});
    ++next;
  }
  require(outer.outputs.size() == outer.graph.outputs.size(),
          "the signature has another number of outputs than the graph");
}

}  // namespace

OuterGraph read_graph(const std::string& text) {
  constexpr int64_t kVersion = 8;
  const Json json = Json::parse(text, nullptr, false);
  require(json.is_object(), "it is not JSON");
  const Json& version = object(json, "schema_version");
  require(integer(object(version, "major")) == kVersion, [&] {
    return "its schema has version " + std::to_string(integer(version["major"])) + ", expected " +
           std::to_string(kVersion) + ", that of PyTorch 2.13";
  });
  const Json& module = object(json, "graph_module");
  OuterGraph outer;
  outer.graph = Reader(object(module, "graph"), 0).read();
  read_signature(module, outer);
  for (const auto& [name, range] : object(json, "range_constraints").items()) {
    const auto bound = [&range = range](const char* key) {
      return object(range, key).is_null() ? std::nullopt : std::optional(integer(range[key]));
    };
    outer.symbols[name] = {bound("min_val"), bound("max_val")};
  }
  return outer;
}

}  // namespace adjoin::program
