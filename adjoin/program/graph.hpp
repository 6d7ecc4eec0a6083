#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace adjoin::program {

/// The place of a value while a graph runs.
using Slot = int;
constexpr Slot kNoSlot = -1;

/// A size of a tensor as the file declares it: a number, or an expression of symbols, of which only single symbols are read.
struct Size {
  std::optional<int64_t> example;  ///< the number, or that with which the program was exported, if the file says it
  bool is_fixed = false;
  std::string symbol = {};  ///< "s77"; "" for other expressions
};

/// What the file declares of a value that is a tensor.
struct TensorSpec {
  at::ScalarType type;
  std::vector<Size> sizes;
  std::vector<int64_t> strides;  ///< of the example; empty where the file does not say them all
};

/// What the file declares of a value.
struct Declared {
  std::string name;
  std::optional<TensorSpec> tensor = {};
  std::optional<Size> number = {};  ///< of a value that is a whole number
};

/// An argument of an operator: a constant, a value, or a list in which both are.
struct Argument {
  enum class Kind : uint8_t { constant, value, tensors, optional_tensors, integers, device };
  Kind kind = Kind::constant;
  bool is_tensor = false;  ///< the operator takes a tensor: a number becomes one that does not promote types
  c10::IValue constant = {};
  std::vector<Slot> slots = {};  ///< kNoSlot: no tensor, or the number at this place of `integers`
  std::vector<int64_t> integers = {};
};

/// Computes with sizes. Throws: InvalidArgument for numbers of other types, an overflow, a division by zero
using NumberFunction = c10::IValue (*)(const std::vector<c10::IValue>& numbers);

struct Graph;

struct Node {
  enum class Kind : uint8_t {
    call,           ///< calls `handle`
    size,           ///< a size of a tensor; `handle` is only for its name
    numbers,        ///< `function` of numbers
    check,          ///< a number that must be true
    grad_mode,      ///< `body` with gradients recorded or not
    autocast_mode,  ///< `body` under autocast
    recompute       ///< `body`, again in backward; its arguments are the values that it reads
  };
  Kind kind = Kind::call;
  std::string target;  ///< "aten.add.Tensor"
  std::string module;  ///< Python's name of the module that called it: "encoder.layer.0"
  std::optional<c10::OperatorHandle> handle = {};
  NumberFunction function = nullptr;
  std::vector<Argument> arguments = {};
  std::vector<Slot> outputs = {};
  bool gives_list = false;           ///< one list of tensors, which are the outputs
  std::vector<Slot> last_used = {};  ///< values that no later node reads
  std::shared_ptr<const Graph> body = {};
  bool enabled = true;               ///< of both modes
  at::ScalarType type = at::kFloat;  ///< of autocast
  size_t activations = 0;            ///< of recompute: the arguments that come before its weights

  /// "aten.add.Tensor in encoder.layer.0".
  std::string where() const { return module.empty() ? target : target + " in " + module; }
};

/// The nodes in the order in which they run.
struct Graph {
  std::vector<Slot> inputs = {};       ///< kNoSlot: a constant, of which nothing is read
  std::vector<Argument> outputs = {};  ///< constants and values
  std::vector<Node> nodes = {};
  std::vector<Declared> values = {};  ///< of each slot
};

/// What an input of the outermost graph is.
struct GraphInput {
  enum class Kind : uint8_t { user, parameter, buffer, constant_tensor, constant };
  Kind kind;
  std::string name;           ///< Python's name of the argument, the parameter, …
  bool is_persistent = true;  ///< of a buffer: it is in Python's state_dict
};

/// What an output of the outermost graph is: one of the module's, or a buffer's new value.
struct GraphOutput {
  std::string name;
  bool is_buffer = false;
};

/// The smallest and largest size for which a symbol stands.
struct Range {
  std::optional<int64_t> least, most;
};

/// A whole graph of a file.
struct OuterGraph {
  Graph graph;
  std::vector<GraphInput> inputs;    // as graph.inputs
  std::vector<GraphOutput> outputs;  // as graph.outputs
  std::map<std::string, Range> symbols;
};

}  // namespace adjoin::program
