#include "adjoin/program/run.hpp"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/ScopeExit.h>

#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/movement/autocast_mode.hpp"
#include "adjoin/movement/recompute.hpp"
#include "adjoin/program/fit.hpp"

namespace adjoin::program {
namespace {

const c10::IValue& at_slot(const Values& values, Slot slot) {
  return values[static_cast<size_t>(slot)];
}

const at::Tensor& tensor_at(const Values& values, Slot slot) {
  const c10::IValue& value = at_slot(values, slot);
  require(value.isTensor(), "an argument is no tensor");
  return value.toTensor();
}

c10::IValue argument_value(const Argument& argument, const Values& values, at::Device device) {
  switch (argument.kind) {
    case Argument::Kind::constant:
      return argument.constant;
    case Argument::Kind::device:
      return device;
    case Argument::Kind::value: {
      const c10::IValue& value = at_slot(values, argument.slots[0]);
      return argument.is_tensor && value.isScalar() ? c10::IValue(number_as_tensor(value)) : value;
    }
    case Argument::Kind::tensors: {
      c10::List<at::Tensor> list;
      list.reserve(argument.slots.size());
      for (const Slot slot : argument.slots) list.push_back(tensor_at(values, slot));
      return list;
    }
    case Argument::Kind::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(argument.slots.size());
      for (const Slot slot : argument.slots)
        list.push_back(slot == kNoSlot ? std::nullopt : std::optional(tensor_at(values, slot)));
      return list;
    }
    case Argument::Kind::integers: {
      c10::List<int64_t> list;
      list.reserve(argument.slots.size());
      for (size_t i = 0; i < argument.slots.size(); ++i) {
        const Slot slot = argument.slots[i];
        require(slot == kNoSlot || at_slot(values, slot).isInt(), "a size is no whole number");
        list.push_back(slot == kNoSlot ? argument.integers[i] : at_slot(values, slot).toInt());
      }
      return list;
    }
  }
  return {};
}

void run_body(const Node& node, torch::jit::Stack& stack, at::Device device) {
  const Graph& body = *node.body;
  Values values(body.values.size());
  for (size_t i = 0; i < stack.size(); ++i)
    if (body.inputs[i] != kNoSlot) values[static_cast<size_t>(body.inputs[i])] = std::move(stack[i]);
  stack.clear();
  if (node.kind == Node::Kind::grad_mode) {
    const at::AutoGradMode mode(node.enabled);
    run(body, values, device);
  } else {
    const AutocastMode mode(device.type(), node.enabled, node.type);
    run(body, values, device);
  }
  for (const Argument& output : body.outputs) stack.push_back(output_value(output, values));
}

/// Runs f so that operations on plain tensors, which draw from LibTorch's generator, draw each time what they drew at first.
template <class F>
auto drawing_alike(const std::shared_ptr<at::Tensor>& first, at::Device device, const F& f) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const auto state = [&] {
    const std::scoped_lock lock(generator.mutex());
    return generator.get_state();
  };
  const auto set = [&](const at::Tensor& to) {
    const std::scoped_lock lock(generator.mutex());
    generator.set_state(to);
  };
  if (!first->defined()) {
    *first = state();
    return f();
  }
  const auto back = c10::make_scope_exit([&, now = state()] { set(now); });
  set(*first);
  return f();
}

void run_recomputed(const Node& node, torch::jit::Stack& stack, at::Device device) {
  Values kept(std::make_move_iterator(stack.begin()), std::make_move_iterator(stack.end()));
  std::vector<at::Tensor> inputs;
  std::vector<size_t> places;
  for (size_t i = 0; i < node.activations; ++i)
    if (kept[i].isTensor() && kept[i].toTensor().requires_grad()) {
      inputs.push_back(kept[i].toTensor());
      places.push_back(i);
      kept[i] = {};
    }
  const auto f = [body = node.body, kept = std::move(kept), places, device,
                  drawn = std::make_shared<at::Tensor>()](const std::vector<at::Tensor>& given) {
    Values values(body->values.size());
    for (size_t i = 0; i < kept.size(); ++i) values[static_cast<size_t>(body->inputs[i])] = kept[i];
    for (size_t i = 0; i < places.size(); ++i) values[static_cast<size_t>(body->inputs[places[i]])] = given[i];
    drawing_alike(drawn, device, [&] { run(*body, values, device); });
    return output_value(body->outputs[0], values).toTensor();
  };
  stack.assign({inputs.empty() ? f({}) : recomputed(f, inputs)});
}

/// As torch.nn.functional.batch_norm does: LibTorch's operator gives NaN, and moves the statistics there.
void check_norm_of_batch(const Node& node, const torch::jit::Stack& stack) {
  if (node.target != "aten.batch_norm" || !stack[0].isTensor() || !stack[5].isBool() || !stack[5].toBool()) return;
  const at::Tensor& x = stack[0].toTensor();
  require(x.dim() < 2 || x.numel() != x.size(1), [&] {
    return node.where() + ": expected more than one number in each channel in training; the input is [" +
           joined(x.sizes()) + "]";
  });
}

void run_node(const Node& node, torch::jit::Stack& stack, at::Device device) {
  switch (node.kind) {
    case Node::Kind::call:
      check_norm_of_batch(node, stack);
      node.handle->callBoxed(&stack);
      break;
    case Node::Kind::size:
    case Node::Kind::numbers: {
      c10::IValue result = run_numbers(node, stack);
      stack.clear();
      stack.push_back(std::move(result));
      break;
    }
    case Node::Kind::check:
      require(!(stack[0].isBool() && !stack[0].toBool()), [&] {
        return "the program checks its sizes and refuses them: " + (stack[1].isString() ? stack[1].toStringRef() : "");
      });
      stack.clear();
      break;
    case Node::Kind::recompute:
      run_recomputed(node, stack, device);
      break;
    default:
      run_body(node, stack, device);
  }
}

}  // namespace

std::string first_line_of(const std::exception& error) {
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_libtorch != nullptr ? of_libtorch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

void push_arguments(const Node& node, const Values& values, at::Device device, torch::jit::Stack& stack) {
  for (const Argument& argument : node.arguments) stack.push_back(argument_value(argument, values, device));
}

void spread_results(const Node& node, torch::jit::Stack& stack) {
  if (node.gives_list) {
    require(stack.size() == 1 && stack[0].isTensorList(), "the operator gives no list of tensors");
    std::vector<at::Tensor> list = stack[0].toTensorVector();
    stack.assign(std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
  }
  require(node.gives_list ? stack.size() == node.outputs.size() : stack.size() >= node.outputs.size(), [&] {
    return "the operator gives " + counted(std::ssize(stack), "result") + ", the file declares " +
           std::to_string(node.outputs.size());
  });
}

c10::IValue run_numbers(const Node& node, const torch::jit::Stack& stack) {
  if (node.kind == Node::Kind::numbers) return node.function(stack);
  require(stack[0].isTensor(), "an argument is no tensor");
  const at::Tensor& x = stack[0].toTensor();
  if (node.target == "aten.sym_numel") return x.numel();
  if (node.target == "aten.sym_storage_offset") return x.storage_offset();
  require(stack.size() == 2 && stack[1].isInt(), "expected the number of a dim");
  return node.target == "aten.sym_stride.int" ? x.stride(stack[1].toInt()) : x.size(stack[1].toInt());
}

void run(const Graph& graph, Values& values, at::Device device) {
  torch::jit::Stack stack;
  for (const Node& node : graph.nodes) {
    try {
      stack.clear();
      push_arguments(node, values, device, stack);
      run_node(node, stack, device);
      spread_results(node, stack);
      for (size_t i = 0; i < node.outputs.size(); ++i)
        if (node.outputs[i] != kNoSlot) values[static_cast<size_t>(node.outputs[i])] = std::move(stack[i]);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(node.where() + ": " + first_line_of(error));
    }
    for (const Slot slot : node.last_used) values[static_cast<size_t>(slot)] = {};
  }
}

c10::IValue output_value(const Argument& output, const Values& values) {
  return output.kind == Argument::Kind::value ? at_slot(values, output.slots[0]) : output.constant;
}

}  // namespace adjoin::program
