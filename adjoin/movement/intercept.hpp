#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>

#include "adjoin/base/not_copied.hpp"

namespace adjoin {

// The dispatch key that adjoin has in LibTorch: above those of autograd and autocast, so that it sees what users' code and LibTorch's
// modules call, forward and backward. A tensor that has it is a global tensor (global_tensor.hpp) or a marked one (marks.hpp).

/// LibTorch has this key for torchdistx, which is no longer developed; nothing else registers a fallback for it, as this would fail
/// when the program starts.
constexpr c10::DispatchKey kIntercepted = c10::DispatchKey::DeferredInit;

inline bool is_intercepted(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has(kIntercepted);
}

/// Whether the sizes of a tensor are those of a global tensor, of which this worker holds a piece.
inline bool is_global(const at::Tensor& tensor) {
  return is_intercepted(tensor) && tensor.unsafeGetTensorImpl()->get_backend_meta() != nullptr;
}

/// Carries out an operation with the arguments on the stack, which it replaces by the results.
using CarryOut = void (*)(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// What carries out operations that have a global tensor among their arguments, and those that draw on plain tensors while a
/// DrawsAlike lives; rules sets both when the program starts.
void set_global_operations(CarryOut carry_out, CarryOut draw_alike);

/// While it lives, the operations that this thread calls go to `carry_out` where none of their arguments is global, also those that
/// make tensors.
class InterceptAll : NotCopied {
 public:
  using Work =
      std::function<void(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack)>;
  explicit InterceptAll(Work carry_out);
  ~InterceptAll();

 private:
  const Work carry_out_;
  const Work* const before_;
  const c10::impl::IncludeDispatchKeyGuard include_{kIntercepted};
};

/// Carries out an operation none of whose arguments is global, and some of which may be marked (marks.cpp).
void carry_out_marked(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// The keys below kIntercepted.
c10::DispatchKeySet below_intercepted(c10::DispatchKeySet keys);

/// Calls `work` with each tensor that is an argument, or in a list that is one.
template <class Work>
void for_each_tensor(const c10::IValue& value, const Work& work) {
  if (value.isTensor()) {
    work(value.toTensor());
  } else if (value.isTensorList() || value.isList()) {
    for (const c10::IValue& item : value.toListRef())
      if (item.isTensor()) work(item.toTensor());
  }
}

}  // namespace adjoin
