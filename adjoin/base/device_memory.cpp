#include "adjoin/base/device_memory.hpp"

namespace adjoin {

namespace {

DeviceMemory& in_use() {  // static objects of a program may set it before this file's are made
  static DeviceMemory memory;
  return memory;
}

}  // namespace

bool use_device_memory(const DeviceMemory& memory) {
  in_use() = memory;
  return true;
}

const DeviceMemory& device_memory() {
  return in_use();
}

std::string text(const Device& device) {
  if (device.kind == Device::Kind::cpu) return "cpu";
  return (device.kind == Device::Kind::cuda ? "cuda:" : "privateuseone:") + std::to_string(device.index);
}

}  // namespace adjoin
