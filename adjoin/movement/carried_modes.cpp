#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>

#include "adjoin/base/carried_state.hpp"
#include "adjoin/movement/device_runtime.hpp"

/// The linker is told to request this name (CMakeLists.txt), so that every program that links adjoin contains it.
extern "C" const bool adjoin_modes_are_carried;

namespace adjoin {

namespace {

/// LibTorch's state of a thread: no_grad, inference_mode, autocast, its current streams and others. Autocast's cache, which the
/// threads of a process share, stays off, as ranks would drop each other's casts.
std::function<void()> carried_modes() {
  return [state = at::ThreadLocalState(), give_streams = carried_streams()] {
    at::ThreadLocalState::setThreadLocalState(state);
    give_streams();
    // Else LibTorch runs the backward pass of all ranks that share a device on one thread, where they would wait for each other.
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    if (at::autocast::is_autocast_enabled(at::kCPU)) at::autocast::set_autocast_cache_enabled(false);
  };
}

}  // namespace
}  // namespace adjoin

const bool adjoin_modes_are_carried = adjoin::carry_to_ranks(&adjoin::carried_modes);
