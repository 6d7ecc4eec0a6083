#include "adjoin/comm/contract/host_memory.hpp"

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/shared_memory.hpp"

namespace adjoin {

namespace {

std::mutex use_mutex;
std::vector<void (*)()>& actions() {  // static objects of a program may add to it before those of this file are made
  static std::vector<void (*)()> all;
  return all;
}
HostMemoryUse latest_use{0, "this is not an MPI job"};

}  // namespace

HostMemoryUse host_memory_use() {
  const std::lock_guard lock(use_mutex);
  return latest_use;
}

void note_host_memory(HostMemoryUse use) {
  const std::lock_guard lock(use_mutex);
  latest_use = std::move(use);
}

bool when_ranks_begin(void (*action)()) {
  actions().push_back(action);
  return true;
}

void ranks_begin() {
  for (const auto action : actions()) action();
}

HostMemory host_memory_named(std::string_view text, const std::string& what) {
  if (text == "auto") return HostMemory::automatic;
  if (text == "on") return HostMemory::on;
  require(text == "off", what + ": expected auto, on or off, got '" + std::string(text) + "'");
  return HostMemory::off;
}

HostMemory host_memory_from_environment() {
  const char* value = std::getenv("ADJOIN_HOST_MEMORY");
  return value && *value ? host_memory_named(value, "the environment variable ADJOIN_HOST_MEMORY")
                         : HostMemory::automatic;
}

HostMemory host_memory_or_environment(HostMemory given) {
  return given == HostMemory::automatic ? host_memory_from_environment() : given;
}

std::shared_ptr<void> host_memory(size_t bytes) {
  SharedMemory* memory = SharedMemory::current();
  if (void* block = memory ? memory->allocate(bytes) : nullptr)
    return {block, [memory](void* old) { memory->free(old); }};
  constexpr std::align_val_t kLine{BlockHeap::kLine};
  return {::operator new(bytes, kLine), [](void* old) { ::operator delete(old, kLine); }};
}

}  // namespace adjoin
