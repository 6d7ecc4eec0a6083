#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <optional>
#include <vector>

namespace adjoin::rules {

/// A call of an operator on tensors whose layouts are still open. In its arguments these have no elements: they are on LibTorch's
/// device "meta".
struct NotedCall {
  struct Operand {
    size_t argument;              ///< as Operand of an Operation
    std::optional<size_t> value;  ///< none: a tensor that every worker has
    std::vector<int64_t> shape;
    int64_t element_bytes;
  };
  struct Result {
    size_t value;
    std::vector<int64_t> shape;
    int64_t element_bytes;
  };

  c10::OperatorHandle handle;
  std::vector<c10::IValue> arguments;
  std::vector<Operand> operands;
  std::vector<Result> results;
  bool is_in_place, is_view;
  size_t alike;  ///< calls of one number differ in values alone, so in equal layouts they run alike
};

/// What some code computed from tensors. Values are numbered: first those tensors, then the results of the calls.
struct Noted {
  std::vector<NotedCall> calls;
  size_t values = 0;
  std::vector<int64_t> gradient_bytes;  ///< of an element of each weight's gradient; 0 for a weight that is not trained
};

/// Runs the code once and notes its operations, as rules would get them: composite ones without a rule as their parts. It computes on
/// whole tensors, without gradients; dropout drops nothing, and weights and buffers keep their values.
/// Throws: what the code throws
Noted noted(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& inputs,
            const std::function<void()>& code);

}  // namespace adjoin::rules
