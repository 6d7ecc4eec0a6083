#include "adjoin/rules/noted.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/rules/operation.hpp"
#include "adjoin/rules/prepared.hpp"

namespace adjoin::rules {
namespace {

/// Carries out the operations of some code, and notes them.
class Notes {
 public:
  Notes(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& inputs) {
    for (const at::Tensor& weight : weights) {
      add(weight);
      weights_.insert(weight.unsafeGetTensorImpl());
      noted_.gradient_bytes.push_back(weight.requires_grad() ? static_cast<int64_t>(weight.element_size()) : 0);
    }
    for (const at::Tensor& input : inputs) add(input);
  }

  void run(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
    if (known_rule(handle) == nullptr && is_composite(handle)) return run_parts(handle, keys, stack);
    const c10::impl::ExcludeDispatchKeyGuard no_parts(kIntercepted);
    const size_t first = stack->size() - handle.schema().arguments().size();
    bool is_open = false;
    for (size_t i = first; i < stack->size(); ++i)
      for_each_tensor((*stack)[i], [&](const at::Tensor& tensor) { is_open = is_open || value_of(tensor); });
    if (!is_open) return handle.callBoxed(stack);
    NotedCall call = without_results(handle, *stack, first);
    const at::Tensor self = call.is_in_place ? (*stack)[first].toTensor() : at::Tensor();
    change_nothing(handle, *stack, first);
    handle.callBoxed(stack);
    if (self.defined()) (*stack)[first] = self;
    for (size_t i = first; i < stack->size(); ++i)
      for_each_tensor((*stack)[i], [&](const at::Tensor& tensor) {
        if (tensor.defined())
          call.results.push_back({add(tensor), tensor.sizes().vec(), static_cast<int64_t>(tensor.element_size())});
      });
    noted_.calls.push_back(std::move(call));
  }

  Noted result() && {
    noted_.values = known_.size();
    return std::move(noted_);
  }

 private:
  std::optional<size_t> value_of(const at::Tensor& tensor) const {
    const auto found = values_.find(tensor.unsafeGetTensorImpl());
    return tensor.defined() && found != values_.end() ? std::optional(found->second) : std::nullopt;
  }
  size_t add(const at::Tensor& tensor) {
    values_[tensor.unsafeGetTensorImpl()] = known_.size();
    known_.emplace_back(tensor.getIntrusivePtr());
    return known_.size() - 1;
  }

  NotedCall without_results(const c10::OperatorHandle& handle, const Stack& stack, size_t first) {
    const c10::FunctionSchema& schema = handle.schema();
    NotedCall call{handle, {}, {}, {}, false, false, 0};
    Key key(schema);
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      for_each_tensor(stack[first + i], [&](const at::Tensor& tensor) {
        const std::optional<size_t> value = value_of(tensor);
        if (!tensor.defined() || (!value && tensor.dim() == 0)) return;  // a number, which all have
        call.operands.push_back({i, value, tensor.sizes().vec(), static_cast<int64_t>(tensor.element_size())});
      });
      call.arguments.push_back(without_elements(stack[first + i]));
      key.add(call.arguments.back());
    }
    const auto writes = [](const c10::AliasInfo* alias) { return alias != nullptr && alias->isWrite(); };
    call.is_in_place = !schema.arguments().empty() && writes(schema.arguments()[0].alias_info());
    call.is_view = !call.is_in_place && !schema.returns().empty() && schema.returns()[0].alias_info() != nullptr;
    call.alike = alike_.emplace(std::move(key), alike_.size()).first->second;
    return call;
  }

  /// So that an operation neither writes to a weight or a buffer nor draws numbers.
  void change_nothing(const c10::OperatorHandle& handle, Stack& stack, size_t first) const {
    for (size_t i = 0; i < handle.schema().arguments().size(); ++i) {
      const c10::Argument& argument = handle.schema().arguments()[i];
      c10::IValue& value = stack[first + i];
      const bool draws = handle.hasTag(at::Tag::nondeterministic_seeded);
      if (draws && argument.name() == "train") value = false;
      if (draws && argument.name() == "dropout_p") value = 0.0;
      if (!value.isTensor() || !value.toTensor().defined()) continue;
      const bool is_written = (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) ||
                              argument.name().starts_with("running_");  // statistics of norms
      if (is_written && weights_.contains(value.toTensor().unsafeGetTensorImpl())) value = value.toTensor().clone();
    }
  }

  /// An argument with the shapes of its tensors and no elements.
  static c10::IValue without_elements(const c10::IValue& argument) {
    const auto shape_of = [](const at::Tensor& tensor) {
      if (!tensor.defined() || tensor.is_meta()) return tensor;
      return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
    };
    if (argument.isTensor()) return shape_of(argument.toTensor());
    if (argument.isTensorList()) {
      std::vector<at::Tensor> tensors = argument.toTensorVector();
      for (at::Tensor& tensor : tensors) tensor = shape_of(tensor);
      return tensors;
    }
    if (!argument.isList() || argument.toList().elementType()->kind() != c10::TypeKind::OptionalType) return argument;
    c10::List<std::optional<at::Tensor>> tensors;
    for (const c10::IValue& item : argument.toListRef())
      tensors.push_back(item.isTensor() ? std::optional(shape_of(item.toTensor())) : std::nullopt);
    return tensors;
  }

  std::unordered_map<const c10::TensorImpl*, size_t> values_;  // a tensor that is written is another value
  std::unordered_set<const c10::TensorImpl*> weights_;
  // Of all values, so that no later tensor is at the place of one.
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> known_;
  std::unordered_map<Key, size_t, Key::Hash> alike_;
  Noted noted_;
};

}  // namespace

Noted noted(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& inputs,
            const std::function<void()>& code) {
  Notes notes(weights, inputs);
  const at::NoGradGuard no_gradient;
  const InterceptAll all([&](const auto& handle, auto keys, Stack* stack) { notes.run(handle, keys, stack); });
  code();
  return std::move(notes).result();
}

}  // namespace adjoin::rules
