#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "adjoin/base/buffer.hpp"
#include "adjoin/base/not_copied.hpp"
#include "adjoin/base/reduction.hpp"

namespace adjoin {

/// A mark in the work of streams. One thread at a time records it; then any number of threads may block on it.
class DeviceEvent : NotCopied {
 public:
  virtual ~DeviceEvent() = default;

  /// Marks all that this thread has enqueued so far on its current stream of `device`.
  virtual void record(Device device) = 0;
  /// This thread's current stream of `device` waits for what was marked last; nothing to wait for where nothing was. The thread
  /// does not wait. Marking again or destroying the event changes nothing for the stream.
  virtual void block(Device device) const = 0;
};

/// What adjoin needs of the devices of this process, implemented by who knows their library. Their work is enqueued on streams: each
/// thread has a current stream on each device, and a copy runs in the order of the current streams of both devices. Elements on a
/// device are a box: `sizes` and `strides` as in Message, empty for contiguous elements.
class DeviceRuntime {
 public:
  using Dims = std::span<const int64_t>;
  virtual ~DeviceRuntime() = default;

  // These wait for the device: a copy to or from contiguous elements on the host has ended on return.
  virtual void to_host(void* to, ConstBuffer from, Dims sizes, Dims strides) = 0;
  virtual void to_device(Buffer to, Dims sizes, Dims strides, const void* from) = 0;

  // These enqueue and return. Buffers of one call may be on several devices.

  /// Copies a box to another one of equally many elements, which shares no byte with it.
  virtual void copy_box(Buffer to, Dims to_sizes, Dims to_strides, ConstBuffer from, Dims from_sizes,
                        Dims from_strides) = 0;
  /// As base/reduction.hpp's, on the current stream of `on`, with the same bits, but for the sign of a zero in min and max. `inputs` have the
  /// type and the count of `outs`, of which there is at least one; each out may be one of the inputs.
  virtual void reduce_all_into(Device on, std::span<const Buffer> outs, std::span<const ConstBuffer> inputs,
                               Reduction reduction) = 0;
  virtual std::unique_ptr<DeviceEvent> new_event() = 0;
  /// Marks what this thread has enqueued on all devices. The result, called on any thread, makes that thread's current streams wait
  /// for it; an empty function where no device is in use.
  virtual std::function<void()> now() = 0;
  /// Gives this thread current streams of its own, on all devices in use. Memory is reused in the order of the stream for which it was
  /// allocated: so call it before the thread allocates any.
  virtual void use_own_streams() = 0;
};

/// Sets the runtime for all devices of the process, before the first buffer on one is made; nullptr: none. Returns true.
bool use_device_runtime(DeviceRuntime* runtime);

/// What was set last; nullptr where nothing was.
DeviceRuntime* device_runtime();

// As the runtime's functions; where there is none, nothing, and an empty function.
void use_own_streams();
std::function<void()> device_work_so_far();

/// LibTorch's name: "cpu", "cuda:1", "privateuseone:0".
std::string text(const Device& device);

}  // namespace adjoin
