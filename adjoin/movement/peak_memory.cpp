#include "adjoin/movement/peak_memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>

#include "adjoin/comm/values.hpp"

namespace adjoin {
namespace {

/// Tensors may be freed by another thread than the one that allocated them, so the counts are atomic.
struct Counter : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    const int64_t now = current.fetch_add(bytes) + bytes;
    int64_t seen = peak.load();
    while (now > seen && !peak.compare_exchange_weak(seen, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::atomic<int64_t> current{0}, peak{0};
};

}  // namespace

struct PeakMemory::Guarded {
  std::shared_ptr<Counter> counter = std::make_shared<Counter>();
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, counter};
};

PeakMemory::PeakMemory() : guarded_(std::make_unique<Guarded>()) {}
PeakMemory::~PeakMemory() = default;

int64_t PeakMemory::current_bytes() const {
  return guarded_->counter->current;
}
int64_t PeakMemory::peak_bytes() const {
  return guarded_->counter->peak;
}
std::vector<int64_t> PeakMemory::peak_bytes_of_all(const Communicator& world) const {
  return numbers_of_all(peak_bytes(), world);
}
void PeakMemory::reset_peak() {
  guarded_->counter->peak = guarded_->counter->current.load();
}

}  // namespace adjoin
