#pragma once

#include <c10/core/Device.h>

#include <functional>

// Streams of LibTorch's devices. What is done on them for calls between ranks: base/device_runtime.hpp, implemented here.

namespace adjoin {

/// Gives this thread a stream of its own as its current one on `device`, where it has the default one.
void use_own_stream(c10::Device device);

/// Waits until all that was enqueued on a device is done; the CPU has nothing to wait for.
void synchronize(c10::Device device);

/// The current streams of this thread, on all devices in use: a function that makes them the current ones of another thread.
std::function<void()> carried_streams();

}  // namespace adjoin
