#include "tests/support/simulated_device/simulated_streams.hpp"

#include <array>
#include <atomic>

#include "tests/support/simulated_device/simulated_memory.hpp"

namespace adjoin::testing::simulated {

namespace {

constexpr c10::StreamId kStreams = 17;  // the default one, and a pool for twice as many ranks as a test has

using Streams = std::array<std::array<DelayedStream, kStreams>, kDevices>;
Streams& streams() {
  static auto* const all = new Streams;  // their threads may outlive static objects
  return *all;
}

thread_local std::array<c10::StreamId, kDevices> current_ids{};

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id);
}

}  // namespace

c10::Stream current_stream(c10::DeviceIndex device) {
  return stream_of(device, current_ids.at(static_cast<size_t>(device)));
}
c10::Stream default_stream(c10::DeviceIndex device) {
  return stream_of(device, 0);
}
c10::Stream stream_from_pool(c10::DeviceIndex device) {
  static std::array<std::atomic<c10::StreamId>, kDevices> next{};
  return stream_of(device, 1 + next.at(static_cast<size_t>(device))++ % (kStreams - 1));
}
void set_current_stream(const c10::Stream& stream) {
  current_ids.at(static_cast<size_t>(stream.device_index())) = stream.id();
}

DelayedStream& running(const c10::Stream& stream) {
  return streams().at(static_cast<size_t>(stream.device_index())).at(static_cast<size_t>(stream.id()));
}
std::vector<DelayedStream*> running_on(c10::DeviceIndex device) {
  std::vector<DelayedStream*> all;
  for (DelayedStream& stream : streams().at(static_cast<size_t>(device))) all.push_back(&stream);
  return all;
}

void synchronize_current() {
  for (c10::DeviceIndex device = 0; device < kDevices; ++device) running(current_stream(device)).synchronize();
}

}  // namespace adjoin::testing::simulated
