#include "adjoin/base/device_runtime.hpp"

namespace adjoin {

namespace {

DeviceRuntime*& in_use() {  // static objects of a program may set it before this file's are made
  static DeviceRuntime* runtime = nullptr;
  return runtime;
}

}  // namespace

bool use_device_runtime(DeviceRuntime* runtime) {
  in_use() = runtime;
  return true;
}

DeviceRuntime* device_runtime() {
  return in_use();
}

void use_own_streams() {
  if (device_runtime()) device_runtime()->use_own_streams();
}

std::function<void()> device_work_so_far() {
  return device_runtime() ? device_runtime()->now() : nullptr;
}

std::string text(const Device& device) {
  if (device.kind == Device::Kind::cpu) return "cpu";
  return (device.kind == Device::Kind::cuda ? "cuda:" : "privateuseone:") + std::to_string(device.index);
}

}  // namespace adjoin
