#include "adjoin/nn/seeded.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <utility>

namespace adjoin::nn {
namespace {

// Where a thread includes this key, LibTorch looks at it before the kernels that draw; it has none of its own for it.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local const at::Generator* draws_from = nullptr;

/// Gives the thread's generator to an operation on the CPU that would draw from the default one.
void give_generator(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& arguments = operation.schema().arguments();
  const size_t begin = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& first = (*stack)[begin];
    c10::IValue& value = (*stack)[begin + i];
    if (arguments[i].name() != "generator" || !value.isNone()) continue;
    if (draws_from && (!first.isTensor() || first.toTensor().is_cpu())) value = *draws_from;
  }
  operation.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&give_generator>());
}

}  // namespace

void with_seed(uint64_t seed, const std::function<void()>& work) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  struct Drawing {
    const at::Generator* const before;
    ~Drawing() { draws_from = before; }
  } const drawing{std::exchange(draws_from, &generator)};
  const c10::impl::IncludeDispatchKeyGuard guard(kKey);
  work();
}

}  // namespace adjoin::nn
