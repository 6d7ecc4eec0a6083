#include "adjoin/movement/tensor_memory.hpp"

#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <cstdlib>

#include "adjoin/base/shared_memory.hpp"
#include "adjoin/comm/host_memory.hpp"

/// The linker is told to ask for this name (CMakeLists.txt), so that every program which links adjoin has it.
extern "C" const bool adjoin_tensors_lie_in_host_memory;

namespace adjoin {

namespace {

class TensorMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : shared(bytes);
    if (!data && bytes > 0) data = private_to_us(bytes);
    if (!data) return c10::GetDefaultCPUAllocator()->allocate(bytes);  // which says what lacks
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &free_data, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_data; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  static constexpr size_t kAlignment = 64;

  static void* shared(size_t bytes) {
    SharedMemory* memory = SharedMemory::current();
    return memory ? memory->allocate(bytes) : nullptr;
  }
  static void* private_to_us(size_t bytes) {
    void* block = std::malloc(bytes + kAlignment);
    if (!block) return nullptr;
    // malloc aligns to 16 bytes, so that there is room for the block's address in front of the data.
    void* data = static_cast<char*>(block) + kAlignment - reinterpret_cast<uintptr_t>(block) % kAlignment;
    static_cast<void**>(data)[-1] = block;
    return data;
  }
  static void free_data(void* data) {
    if (data == nullptr) return;
    c10::profiledCPUMemoryReporter().Delete(data);
    SharedMemory* memory = SharedMemory::current();
    memory && memory->holds(data) ? memory->free(data) : std::free(static_cast<void**>(data)[-1]);
  }
};

}  // namespace

void use_tensor_memory() {
  static TensorMemory memory;
  c10::SetCPUAllocator(&memory, /*priority=*/1);
}

}  // namespace adjoin

const bool adjoin_tensors_lie_in_host_memory = adjoin::when_host_memory_begins(&adjoin::use_tensor_memory);
