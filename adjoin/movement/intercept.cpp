#include "adjoin/movement/intercept.hpp"

#include <torch/library.h>

#include <atomic>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/global_tensor.hpp"

namespace adjoin {
namespace {

std::atomic<CarryOut> global_operations = nullptr, drawn_alike = nullptr;
thread_local const InterceptAll::Work* all_operations = nullptr;

bool has_global(const torch::jit::Stack& stack, size_t arguments) {
  bool any = false;
  for (size_t i = stack.size() - arguments; i < stack.size() && !any; ++i)
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) { any = any || is_global(tensor); });
  return any;
}

/// Each operation with a tensor that has the key comes here first.
void intercept(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!has_global(*stack, operation.schema().arguments().size())) {
    if (all_operations != nullptr) return (*all_operations)(operation, keys, stack);
    const bool draws = DrawsAlike::home() != nullptr && operation.hasTag(at::Tag::nondeterministic_seeded);
    return draws ? drawn_alike.load()(operation, keys, stack) : carry_out_marked(operation, keys, stack);
  }
  const CarryOut carry_out = global_operations;
  require(carry_out != nullptr, "an operation on a global tensor: expected a program that is linked with adjoin's nn");
  carry_out(operation, keys, stack);
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&intercept>());
}

}  // namespace

void set_global_operations(CarryOut carry_out, CarryOut draw_alike) {
  global_operations = carry_out;
  drawn_alike = draw_alike;
}

InterceptAll::InterceptAll(Work carry_out) : carry_out_(std::move(carry_out)), before_(all_operations) {
  all_operations = &carry_out_;
}
InterceptAll::~InterceptAll() {
  all_operations = before_;
}

c10::DispatchKeySet below_intercepted(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kIntercepted);
}

}  // namespace adjoin
