#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/rules/call.hpp"

namespace adjoin::rules {

void put(std::vector<at::Tensor> results, const c10::FunctionSchema& schema, Stack& stack) {
  torch::jit::drop(stack, schema.arguments().size());
  if (schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::ListType)
    stack.emplace_back(std::move(results));
  else
    for (at::Tensor& result : results) stack.emplace_back(std::move(result));
}

// LibTorch finds the sizes and types of results on tensors without memory or, where it has no such kernel, on zeros.
void run_elsewhere(const c10::OperatorHandle& handle, Stack& stack, const Way* way, std::optional<at::ScalarType> type,
                   const at::Tensor& self, const std::shared_ptr<GlobalGrid>& home) {
  const size_t count = handle.schema().arguments().size(), first = stack.size() - count;
  std::vector<at::Tensor> pieces;
  for (size_t i = 0; i < count; ++i)
    replace(stack[first + i], [&](const at::Tensor& tensor) {
      const bool casts = type && tensor.scalar_type() == at::kFloat;
      if (!is_number(tensor)) pieces.push_back(moved(tensor, home->everywhere(tensor.sizes().vec()), *home));
      if (way != nullptr && way->is_everywhere) return is_number(tensor) ? tensor : pieces.back();
      return at::empty(tensor.sizes(), at::TensorOptions(casts ? *type : tensor.scalar_type()).device(at::kMeta));
    });
  if (way != nullptr && way->is_everywhere) {
    put(way->kernel(Arguments(&stack[first], count)), handle.schema(), stack);
    replace(stack[first],
            [&](const at::Tensor& none) { return global(nn::linked(none, pieces).clone(), way->makes[0], home); });
    return;
  }
  const auto& returns = handle.schema().returns();
  const bool views = !self.defined() && !returns.empty() && returns[0].alias_info() != nullptr;
  const auto here = [&](const at::Tensor& meta) {
    if (views && meta.scalar_type() == pieces.front().scalar_type()) return pieces.front().narrow(0, 0, 0);
    const at::Tensor none = at::empty({0}, meta.options().device(pieces.front().device()));
    return has_gradients(none) ? nn::linked(none, pieces).clone() : none;
  };
  if (self.defined()) {
    torch::jit::drop(stack, count);
    if (has_gradients(pieces.front())) pieces.front().add_(here(self));  // so that its views know the other operands
    was_written(self, pieces.front());
    stack.emplace_back(self);
    return;
  }
  const std::vector<c10::IValue> arguments(stack.begin() + static_cast<ptrdiff_t>(first), stack.end());
  try {
    handle.callBoxed(&stack);
  } catch (const c10::NotImplementedError&) {
    stack.resize(first);
    stack.insert(stack.end(), arguments.begin(), arguments.end());
    for (size_t i = 0; i < count; ++i)
      replace(stack[first + i], [&](const at::Tensor& meta) {
        return at::zeros({}, meta.options().device(pieces.front().device())).expand(meta.sizes());
      });
    handle.callBoxed(&stack);
  }
  size_t result = 0;
  for (size_t i = first; i < stack.size(); ++i)
    replace(stack[i], [&](const at::Tensor& meta) {
      return global(here(meta), way != nullptr ? way->makes[result++] : home->everywhere(meta.sizes().vec()), home);
    });
}

}  // namespace adjoin::rules
