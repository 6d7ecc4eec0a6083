#pragma once

#include <c10/core/Device.h>

#include <cstdint>

/// A device for tests on machines without a GPU: LibTorch's PrivateUse1, with two devices. Operations run LibTorch's CPU kernels on
/// memory that nothing else may touch (simulated_memory.hpp). As on a GPU, an operation refuses tensors of another device unless
/// they have no dims, and operations that exist only for the CPU are refused. A program has the device if it links the object library
/// `simulated_device`.
namespace adjoin::testing {

inline const c10::Device kSimulated{c10::DeviceType::PrivateUse1, 0};

/// How often a rank has waited for the device since the program began: numbers and tensors that it has copied to the CPU.
int64_t host_waits();

/// How often its flash attention ran, forward or backward.
int64_t flash_calls();

}  // namespace adjoin::testing
