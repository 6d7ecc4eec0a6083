// One seed trains the same model on every worker only if a function of the same numbers has the same bits on each. The
// vector mathematics of oneMKL 2024.2, which LibTorch carries, chooses a function's kernel at its first call, and while
// one thread chooses, another's first call may run one of low accuracy: exp in float64 was 2.6e-9 off on one worker of
// four in one of 400 processes. So each function is called once before there are workers: 1.5 ms. Not when the program starts: until
// oneMKL is used, a run can still ask it for sums in one order (nn/sequence/kept_promises.hpp).
// Source: https://github.com/pytorch/pytorch/issues/188792.

#include <ATen/Functions.h>
#include <c10/core/ScalarType.h>

#include <mutex>

#include "adjoin/comm/contract/host_memory.hpp"

/// The linker is told to request this name (CMakeLists.txt), so that every program that links adjoin contains the
/// calls.
extern "C" const bool adjoin_vector_math_is_chosen;

namespace {

/// Calls the functions that LibTorch passes to oneMKL (ATen/cpu/vml.h).
void call_each_once() {
  using Function = at::Tensor (*)(const at::Tensor&);
  constexpr Function kFunctions[] = {at::acos, at::asin, at::atan,  at::cos,  at::erf, at::erfc, at::erfinv, at::exp,
                                     at::log,  at::log2, at::log10, at::sqrt, at::sin, at::tan,  at::tanh,   at::trunc};
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::full({1}, 0.5, type);
    for (const Function function : kFunctions) function(x);
  }
}

}  // namespace

const bool adjoin_vector_math_is_chosen = adjoin::when_ranks_begin([] {
  static std::once_flag once;
  std::call_once(once, call_each_once);
});
