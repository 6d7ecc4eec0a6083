#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "adjoin/base/box.hpp"
#include "adjoin/base/device_runtime.hpp"
#include "tests/support/delayed_stream.hpp"

namespace adjoin::testing {

/// Two devices without LibTorch: ordinary memory, used on streams that are late. Each thread has a stream of its own on each. It is the
/// runtime of the process for as long as it lives.
class DelayedRuntime final : public DeviceRuntime {
 public:
  DelayedRuntime() { use_device_runtime(this); }
  ~DelayedRuntime() override { use_device_runtime(nullptr); }

  /// How often a thread has waited for a device.
  int64_t host_waits() const { return waits_; }

  void to_host(void* to, ConstBuffer from, Dims sizes, Dims strides) override {
    wait();
    copy_now({to, from.count, from.type}, {}, {}, from, sizes, strides);
  }
  void to_device(Buffer to, Dims sizes, Dims strides, const void* from) override {
    wait();
    copy_now(to, sizes, strides, {from, to.count, to.type}, {}, {});
  }
  void copy_box(Buffer to, Dims to_sizes, Dims to_strides, ConstBuffer from, Dims from_sizes,
                Dims from_strides) override {
    const auto own = [](Dims dims) { return std::vector<int64_t>(dims.begin(), dims.end()); };
    enqueue_in_order({&stream(to.device), &stream(from.device)},
                     [=, a = own(to_sizes), b = own(to_strides), c = own(from_sizes), d = own(from_strides)] {
                       copy_now(to, a, b, from, c, d);
                     });
  }
  void reduce_all_into(Device on, std::span<const Buffer> outs, std::span<const ConstBuffer> inputs,
                       Reduction reduction) override {
    if (before_reduction) before_reduction();
    std::vector<void*> to;
    std::vector<const void*> from;
    for (const Buffer& out : outs) to.push_back(out.data);
    for (const ConstBuffer& input : inputs) from.push_back(input.data);
    stream(on).enqueue(
        [=, type = outs[0].type, count = outs[0].count] { adjoin::reduce_all_into(to, type, count, from, reduction); });
  }
  std::unique_ptr<DeviceEvent> new_event() override { return std::make_unique<Event>(); }
  std::function<void()> now() override {
    const auto events = std::make_shared<std::array<Event, kDevices>>();
    for (int8_t i = 0; i < kDevices; ++i) events->at(static_cast<size_t>(i)).record(device(i));
    return [events] {
      for (int8_t i = 0; i < kDevices; ++i) events->at(static_cast<size_t>(i)).block(device(i));
    };
  }
  void use_own_streams() override {}

  /// Called by each thread that enqueues a reduction.
  std::function<void()> before_reduction;

  static Device device(int8_t index) { return {Device::Kind::private_use, index}; }
  /// This thread's stream of a device.
  static DelayedStream& stream(const Device& device) {
    thread_local std::array<DelayedStream, kDevices> streams;
    return streams.at(static_cast<size_t>(device.index));
  }

 private:
  static constexpr int8_t kDevices = 2;

  struct Event final : DeviceEvent {
    void record(Device device) override { event.record(stream(device)); }
    void block(Device device) const override { event.block(stream(device)); }
    DelayedEvent event;
  };

  static void copy_now(const Buffer& to, Dims to_sizes, Dims to_strides, const ConstBuffer& from, Dims from_sizes,
                       Dims from_strides) {
    const int64_t count[] = {from.count}, one[] = {1};
    adjoin::copy_box(to.data, to_sizes.empty() ? count : to_sizes, to_sizes.empty() ? one : to_strides, from.data,
                     from_sizes.empty() ? count : from_sizes, from_sizes.empty() ? one : from_strides,
                     size_of(to.type));
  }
  void wait() {
    ++waits_;
    for (int8_t i = 0; i < kDevices; ++i) stream(device(i)).synchronize();
  }

  const OftenLate late_;
  std::atomic<int64_t> waits_ = 0;
};

/// Memory of one rank that is used again in the order of its thread's stream, as a caching allocator has it. It outlives the rank's
/// work and that of its peers.
class ReusedMemory {
 public:
  std::shared_ptr<void> allocate(int64_t bytes) {
    std::vector<std::unique_ptr<char[]>>& unused = (*unused_)[bytes];
    if (unused.empty()) unused.emplace_back(new char[static_cast<size_t>(bytes)]);
    char* const taken = unused.back().release();
    unused.pop_back();
    return {taken, [bytes, all = unused_](void* data) { (*all)[bytes].emplace_back(static_cast<char*>(data)); }};
  }

 private:
  using Unused = std::map<int64_t, std::vector<std::unique_ptr<char[]>>>;
  std::shared_ptr<Unused> unused_ = std::make_shared<Unused>();
};

}  // namespace adjoin::testing
