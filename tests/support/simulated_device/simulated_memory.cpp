#include "tests/support/simulated_device/simulated_memory.hpp"

#include <ATen/core/Tensor.h>
#include <sys/mman.h>

#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "tests/support/simulated_device/simulated_streams.hpp"

namespace adjoin::testing::simulated {

namespace {

constexpr size_t kPage = 4096;

thread_local c10::DeviceIndex current = 0;

/// Each allocation has pages of its own, which the CPU may touch while `opened` is not 0. As on a GPU, freed memory is used again at
/// once, for the same stream: what is still enqueued there may touch it until then.
struct Block {
  size_t bytes;
  int opened;
  c10::Stream stream;
};
struct Blocks {
  std::mutex mutex;
  std::map<const void*, Block> all;  // by their first byte
  std::map<std::tuple<size_t, c10::DeviceIndex, c10::StreamId>, std::vector<void*>> unused;

  std::vector<void*>& unused_of(size_t bytes, const c10::Stream& stream) {
    return unused[{bytes, stream.device_index(), stream.id()}];
  }
};
Blocks& blocks() {
  static auto* const made = new Blocks;  // tensors that are static objects are freed after those of this file
  return *made;
}

/// Opens or closes the block that has this byte.
void change(const void* byte, int by) {
  const std::lock_guard lock(blocks().mutex);
  auto& [begin, block] = *std::prev(blocks().all.upper_bound(byte));
  const bool was_open = block.opened > 0;
  block.opened += by;
  if (was_open != (block.opened > 0))
    mprotect(const_cast<void*>(begin), block.bytes, block.opened > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void free_block(void* begin) {
  if (!begin) return;
  const std::lock_guard lock(blocks().mutex);
  const Block& block = blocks().all.at(begin);
  c10::reportMemoryUsageToProfiler(begin, -static_cast<int64_t>(block.bytes), 0, 0, block.stream.device());
  blocks().unused_of(block.bytes, block.stream).push_back(begin);
}

void* new_block(size_t bytes) {
  const std::lock_guard lock(blocks().mutex);
  const c10::Stream stream = current_stream(current);
  std::vector<void*>& unused = blocks().unused_of(bytes, stream);
  void* begin = nullptr;
  if (unused.empty()) {
    begin = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(begin != MAP_FAILED, "the simulated device is out of memory");
  } else {
    begin = unused.back();
    unused.pop_back();
  }
  blocks().all.try_emplace(begin, Block{bytes, 0, stream});
  return begin;
}

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(c10::DeviceType::PrivateUse1, current);
    if (bytes == 0) return {nullptr, nullptr, &free_block, device};
    const size_t whole = (bytes + kPage - 1) / kPage * kPage;
    void* const begin = new_block(whole);
    c10::reportMemoryUsageToProfiler(begin, static_cast<int64_t>(whole), 0, 0, device);
    return {begin, begin, &free_block, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    for (const void* block : {static_cast<const void*>(to), from}) change(block, 1);
    default_copy_data(to, from, bytes);
    for (const void* block : {static_cast<const void*>(to), from}) change(block, -1);
  }
};

Memory the_memory;

}  // namespace

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &the_memory)

c10::Allocator& memory() {
  return the_memory;
}

c10::DeviceIndex current_device() {
  return current;
}
void set_current_device(c10::DeviceIndex index) {
  if (index >= 0) current = index;  // -1 is the current one
}

OpenMemory::OpenMemory(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.is_privateuseone() || !tensor.has_storage() || !tensor.storage().data()) continue;
    opened_.push_back(tensor.storage().data());
    change(opened_.back(), 1);
  }
}
OpenMemory::~OpenMemory() {
  for (const void* block : opened_) change(block, -1);
}

}  // namespace adjoin::testing::simulated
