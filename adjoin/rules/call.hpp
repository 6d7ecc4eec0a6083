#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "adjoin/rules/operation.hpp"

// What those share that carry out a call (run.cpp).

namespace adjoin::rules {

/// A tensor without dims and gradient is a number, which all have.
inline bool is_number(const at::Tensor& tensor) {
  return !is_global(tensor) && tensor.dim() == 0 && !tensor.requires_grad();
}

/// Whether a tensor's numbers have gradients: floating-point and complex ones.
inline bool has_gradients(const at::Tensor& tensor) {
  return tensor.is_floating_point() || tensor.is_complex();
}

/// Replaces each tensor of an argument.
template <class Make>
void replace(c10::IValue& value, const Make& make) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = make(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& tensor : tensors)
      if (tensor.defined()) tensor = make(tensor);
    value = std::move(tensors);
  } else if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const c10::IValue& item : value.toListRef())
      tensors.push_back(item.isTensor() && item.toTensor().defined() ? std::optional(make(item.toTensor()))
                                                                     : std::nullopt);
    value = std::move(tensors);
  }
}

/// In checked mode: that tensors which are not global, which all workers need alike, are alike.
/// Throws: InvalidArgument on all workers of the grid, with the operation, the argument's name, and what each worker has
/// Cost:   an all-gather of 8 bytes a worker for each
void check_plain_operands(const c10::FunctionSchema& schema, Arguments arguments, const Grid& grid);

/// Puts the results of a kernel in the place of the operator's arguments.
void put(std::vector<at::Tensor> results, const c10::FunctionSchema& schema, Stack& stack);

/// Carries out a call on a rank outside the grid, where a tensor has no elements: no kernel runs and nothing is sent, but for ways
/// that are everywhere. The results stay in autograd's graph.
/// `way`: none for what is gathered; `type`: that to which products cast; `self`: that is written in place, if it is defined
void run_elsewhere(const c10::OperatorHandle& handle, Stack& stack, const Way* way, std::optional<at::ScalarType> type,
                   const at::Tensor& self, const std::shared_ptr<GlobalGrid>& home);

}  // namespace adjoin::rules
