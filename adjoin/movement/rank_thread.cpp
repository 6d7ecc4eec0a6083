#include "adjoin/movement/rank_thread.hpp"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/graph_task.h>

#include <memory>
#include <string_view>
#include <thread>
#include <type_traits>

#include "adjoin/comm/stand_in.hpp"

namespace adjoin {
namespace {

constexpr std::string_view kName = "the thread that waits for a backward";

template <class Kind>
Kind named(const std::string_view& name) {
  if constexpr (std::is_enum_v<Kind>)  // in LibTorch 2.11, which has none of this number
    return static_cast<Kind>(127);
  else
    return Kind(&name);
}

const auto kWaitingThread = named<c10::DebugInfoKind>(kName);

/// LibTorch passes it on to each thread that continues a backward.
struct WaitingThread : c10::DebugInfoBase {
  std::thread::id id = std::this_thread::get_id();
};

const WaitingThread* waiting_thread() {
  return static_cast<const WaitingThread*>(c10::ThreadLocalDebugInfo::get(kWaitingThread));
}

bool continues_backward() {
  const WaitingThread* const waiting = waiting_thread();
  return waiting && waiting->id != std::this_thread::get_id() && torch::autograd::get_current_graph_task_id() >= 0;
}

}  // namespace

void remember_thread() {
  if (!stands_in.load(std::memory_order_relaxed)) stands_in.store(&continues_backward);
  // Not on top of what a profiler has put there, which would not find its own when it ends.
  if (!waiting_thread() && !c10::ThreadLocalDebugInfo::current())
    c10::ThreadLocalDebugInfo::_push(kWaitingThread, std::make_shared<WaitingThread>());
}

}  // namespace adjoin
