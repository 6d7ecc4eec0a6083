#include "adjoin/program/check.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/program/operators.hpp"
#include "adjoin/program/run.hpp"

namespace adjoin::program {
namespace {

std::string text_of(at::ScalarType type, at::IntArrayRef sizes) {
  return std::string(c10::toString(type)) + " [" + joined(sizes) + "]";
}

class Checker {
 public:
  /// Under autocast the types are those of the device, which tensors without memory do not have: then only sizes are compared.
  Checker(const Graph& graph, bool compares_types) : graph_(graph), compares_types_(compares_types) {
    for (const Declared& declared : graph.values) values_.push_back(value_of(declared));
  }

  void check() {
    for (const Node& node : graph_.nodes) {
      try {
        check_node(node);
      } catch (const std::exception& error) {
        throw InvalidArgument(node.where() + ": " + first_line_of(error));
      }
    }
  }

 private:
  c10::IValue value_of(const Declared& declared) const {
    if (declared.number && declared.number->example) return *declared.number->example;
    const auto sizes = declared.tensor ? example_sizes(*declared.tensor) : std::nullopt;
    if (!sizes) return {};
    const bool is_cast = !compares_types_ && c10::isFloatingType(declared.tensor->type);
    const auto options = at::TensorOptions(at::kMeta).dtype(is_cast ? at::kFloat : declared.tensor->type);
    const std::vector<int64_t>& strides = declared.tensor->strides;
    try {
      return strides.size() == sizes->size() ? at::empty_strided(*sizes, strides, options) : at::empty(*sizes, options);
    } catch (const c10::Error&) {
      throw InvalidArgument("the value " + declared.name + " is declared as one that no memory can hold");
    }
  }

  bool are_known(const Node& node) const {
    return std::ranges::all_of(node.arguments, [&](const Argument& argument) {
      return std::ranges::all_of(
          argument.slots, [&](Slot slot) { return slot == kNoSlot || !values_[static_cast<size_t>(slot)].isNone(); });
    });
  }

  void check_node(const Node& node) {
    if (node.body != nullptr) return check_body(node);
    if (!are_known(node)) return check_numbers(node);
    torch::jit::Stack stack;
    push_arguments(node, values_, at::kMeta, stack);
    if (node.kind == Node::Kind::check) return;
    if (node.kind != Node::Kind::call) {
      compare(node.outputs[0], run_numbers(node, stack));
      return;
    }
    if (node.target.starts_with("aten.conv")) return check_convolution(node, std::move(stack));
    try {
      node.handle->callBoxed(&stack);
    } catch (const c10::NotImplementedError&) {
      return check_numbers(node);
    } catch (const c10::Error& error) {
      if (first_line_of(error).find("eta tensor") == std::string::npos) throw;
      return check_numbers(node);  // it asks for values
    }
    spread_results(node, stack);
    for (size_t i = 0; i < node.outputs.size(); ++i) compare(node.outputs[i], stack[i]);
  }

  /// Where LibTorch cannot find the sizes: no number says more than the file declares.
  void check_numbers(const Node& node) const {
    int64_t largest = 1024;  // epsilon apart, more than any window
    const auto note_size = [&](Slot slot) {
      const c10::IValue& value = slot == kNoSlot ? c10::IValue() : values_[static_cast<size_t>(slot)];
      if (value.isInt()) largest = std::max(largest, value.toInt());
      if (value.isTensor())
        for (const int64_t size : value.toTensor().sizes()) largest = std::max(largest, size);
    };
    for (const Argument& argument : node.arguments) std::ranges::for_each(argument.slots, note_size);
    std::ranges::for_each(node.outputs, note_size);
    for (const Argument& argument : node.arguments) {
      std::vector<int64_t> numbers = argument.integers;
      if (argument.constant.isInt()) numbers.push_back(argument.constant.toInt());
      if (argument.constant.isIntList()) numbers = argument.constant.toIntVector();
      for (const int64_t number : numbers)
        require(number <= largest || number == INT64_MAX, [&] {
          return "the number " + std::to_string(number) + " is larger than all sizes that the file declares";
        });
    }
  }

  /// LibTorch finds the sizes of a convolution on tensors with memory alone: here of no samples, and with one element as weights.
  void check_convolution(const Node& node, torch::jit::Stack stack) {
    require(stack[0].isTensor() && stack[1].isTensor() && node.outputs.size() == 1 && node.outputs[0] != kNoSlot,
            "the arguments of the convolution do not fit");
    constexpr int64_t kMostWeights = 1 << 24;  // which LibTorch may copy
    if (stack[1].toTensor().numel() > kMostWeights) return check_numbers(node);
    std::vector<int64_t> sizes = stack[0].toTensor().sizes().vec();
    const bool has_samples = stack[0].toTensor().dim() == stack[1].toTensor().dim();
    const int64_t samples = has_samples && !sizes.empty() ? std::exchange(sizes[0], 0) : 0;
    if (!has_samples) sizes.insert(sizes.begin(), 0);
    for (c10::IValue& value : stack)
      if (value.isTensor()) value = at::zeros({}, value.toTensor().scalar_type()).expand(value.toTensor().sizes());
    stack[0] = at::empty(sizes, stack[1].toTensor().scalar_type());
    node.handle->callBoxed(&stack);
    sizes = stack[0].toTensor().sizes().vec();
    if (has_samples)
      sizes[0] = samples;
    else
      sizes.erase(sizes.begin());
    compare(node.outputs[0], at::empty(sizes, stack[0].toTensor().options().device(at::kMeta)));
  }

  void check_body(const Node& node) {
    const Graph& body = *node.body;
    Checker inner(body, compares_types_ && node.kind != Node::Kind::autocast_mode);
    for (size_t i = 0; i < body.inputs.size(); ++i)
      if (node.arguments[i].kind == Argument::Kind::value && body.inputs[i] != kNoSlot)
        inner.compare(body.inputs[i], values_[static_cast<size_t>(node.arguments[i].slots[0])]);
    inner.check();
    for (size_t i = 0; i < body.outputs.size(); ++i)
      if (body.outputs[i].kind == Argument::Kind::value && node.outputs[i] != kNoSlot)
        inner.compare(body.outputs[i].slots[0], values_[static_cast<size_t>(node.outputs[i])]);
  }

  /// What was found for a value, and what is declared.
  void compare(Slot slot, const c10::IValue& found) {
    if (slot == kNoSlot || found.isNone()) return;
    c10::IValue& value = values_[static_cast<size_t>(slot)];
    const std::string& name = graph_.values[static_cast<size_t>(slot)].name;
    if (value.isNone()) value = found;  // numbers that no file declares: true, 0.5
    if (!value.isTensor() || !found.isTensor()) {
      require(value.isTensor() == found.isTensor(),
              [&] { return "the value " + name + " is a tensor in one place and a number in another"; });
      require(!value.isInt() || !found.isInt() || value.toInt() == found.toInt(), [&] {
        return "the file declares " + name + " as " + std::to_string(value.toInt()) + ", and it is " +
               std::to_string(found.toInt());
      });
      return;
    }
    const at::Tensor &declared = value.toTensor(), &result = found.toTensor();
    require(declared.sizes() == result.sizes() && (!compares_types_ || declared.scalar_type() == result.scalar_type()),
            [&] {
              return "the file declares " + name + " as " + text_of(declared.scalar_type(), declared.sizes()) +
                     ", and it is " + text_of(result.scalar_type(), result.sizes());
            });
  }

  const Graph& graph_;
  const bool compares_types_;
  Values values_;
};

}  // namespace

void check(const Graph& graph) {
  for (const Slot input : graph.inputs)
    if (input != kNoSlot)
      if (const Declared& declared = graph.values[static_cast<size_t>(input)]; declared.tensor)
        require(example_sizes(*declared.tensor).has_value(),
                [&] { return "the file does not say with which sizes of " + declared.name + " it was exported"; });
  const at::NoGradGuard no_gradient;
  Checker(graph, true).check();
}

}  // namespace adjoin::program
