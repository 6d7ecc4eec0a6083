#pragma once

#include <c10/core/Stream.h>

#include <vector>

#include "tests/support/delayed_stream.hpp"

/// The streams of the simulated device: on each of its devices a default one and a pool, which LibTorch gives out by turns.
namespace adjoin::testing::simulated {

/// The current stream of this thread on a device.
c10::Stream current_stream(c10::DeviceIndex device);
c10::Stream default_stream(c10::DeviceIndex device);
c10::Stream stream_from_pool(c10::DeviceIndex device);
void set_current_stream(const c10::Stream& stream);

DelayedStream& running(const c10::Stream& stream);
/// All streams of a device.
std::vector<DelayedStream*> running_on(c10::DeviceIndex device);

/// Returns when this thread's current streams have ended all their work. No work may call this.
void synchronize_current();

}  // namespace adjoin::testing::simulated
