#include "adjoin/train/tensor_memory.hpp"

#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <cstdlib>

namespace adjoin::train {
namespace {

class TensorMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* block = bytes == 0 ? nullptr : std::malloc(bytes + kAlignment);
    if (block == nullptr) return c10::GetDefaultCPUAllocator()->allocate(bytes);  // which says what lacks
    // malloc aligns to 16 bytes, so that there is room for the block's address in front of the data.
    void* data = static_cast<char*>(block) + kAlignment - reinterpret_cast<uintptr_t>(block) % kAlignment;
    static_cast<void**>(data)[-1] = block;
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &free_data, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_data; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  static constexpr size_t kAlignment = 64;

  static void free_data(void* data) {
    if (data == nullptr) return;
    c10::profiledCPUMemoryReporter().Delete(data);
    std::free(static_cast<void**>(data)[-1]);
  }
};

}  // namespace

void use_plain_tensor_memory() {
  static TensorMemory memory;
  c10::SetCPUAllocator(&memory, /*priority=*/1);
}

}  // namespace adjoin::train
