#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include "adjoin/base/shared_memory.hpp"
#include "adjoin/base/thread_memory.hpp"
#include "adjoin/comm/contract/host_memory.hpp"

/// The linker is told to request this name (CMakeLists.txt), so that every program that links adjoin contains it.
extern "C" const bool adjoin_tensors_have_their_memory;

namespace adjoin {

namespace {

/// The memory of tensors from the first launch on: memory that the processes of a host share, where they do, else memory of the
/// thread. A step frees and allocates gigabytes. If these went back to the system, each page would come again zeroed. And
/// malloc gives a thread memory that another thread freed, which is in another core's caches, and does not reuse the holes of
/// aligned blocks, so that a process grows to several times the size of its tensors.
class TensorMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : block_of(bytes);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &free_data, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_data; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  static void* block_of(size_t bytes) {
    void* block = nullptr;
    if (SharedMemory* shared = SharedMemory::current()) block = shared->allocate_tensor(bytes);
    if (ThreadMemory* own = ThreadMemory::of_process(); own && !block) block = own->allocate(bytes);
    return block ? block : c10::alloc_cpu(bytes);  // which reports what is lacking
  }
  static void free_data(void* data) {
    if (data == nullptr) return;
    c10::profiledCPUMemoryReporter().Delete(data);
    SharedMemory* const shared = SharedMemory::current();
    ThreadMemory* const own = ThreadMemory::of_process();
    if (shared && shared->holds(data)) return shared->free(data);
    own && own->holds(data) ? own->free(data) : c10::free_cpu(data);
  }
};

void use_tensor_memory() {
  static TensorMemory memory;
  c10::SetCPUAllocator(&memory, /*priority=*/1);
}

}  // namespace
}  // namespace adjoin

const bool adjoin_tensors_have_their_memory = adjoin::when_ranks_begin(&adjoin::use_tensor_memory);
