#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "adjoin/base/buffer.hpp"

namespace adjoin {

/// How memory of devices is copied; who knows a device's library says so. Elements on the device are a box: `sizes` and `strides` as
/// in Message, empty for contiguous elements. On the host they are contiguous. A copy has ended on return.
struct DeviceMemory {
  using Dims = std::span<const int64_t>;
  void (*to_host)(void* to, ConstBuffer from, Dims sizes, Dims strides) = nullptr;
  void (*to_device)(Buffer to, Dims sizes, Dims strides, const void* from) = nullptr;
};

/// Says how, for all devices of the process, before the first buffer on one is made. Returns true.
bool use_device_memory(const DeviceMemory& memory);

/// What was said last; without functions where nobody did.
const DeviceMemory& device_memory();

/// LibTorch's name: "cpu", "cuda:1", "privateuseone:0".
std::string text(const Device& device);

}  // namespace adjoin
