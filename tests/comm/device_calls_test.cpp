// Calls between ranks on devices whose streams are late, without LibTorch: ThreadSanitizer sees each wait that is forgotten.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "adjoin/comm/launch.hpp"
#include "tests/support/delayed_runtime.hpp"
#include "tests/support/device_calls.hpp"
#include "tests/support/failures.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

/// A number on a device, which is used again as a new one.
struct OnDevice {
  explicit OnDevice(float x) { device_runtime()->to_device(buffer(), {}, {}, &x); }
  float read() const {
    float x = 0;
    device_runtime()->to_host(&x, buffer(), {}, {});
    return x;
  }
  Buffer buffer() const { return {memory.get(), 1, ElementType::float32, DelayedRuntime::device(0)}; }
  std::shared_ptr<float> memory = std::make_shared<float>();
};

TEST(DeviceStreams, carry_out_random_calls_as_the_host_does) {
  for (const int ranks : {1, 2, 3, 4})
    for (uint32_t seed = 0; seed < 4; ++seed) {
      DelayedRuntime runtime;
      launch_threads(ranks, [&](const Communicator& world) {
        ReusedMemory memory;
        const Device device = DelayedRuntime::device(seed % 2 == 1 ? static_cast<int8_t>(world.rank() % 2) : 0);
        DeviceCalls(world, seed, device, [&](int64_t bytes, Device) { return memory.allocate(bytes); }).run(20);
      });
    }
}

TEST(DeviceStreams, do_not_let_a_rank_wait_for_its_device) {
  DelayedRuntime runtime;
  launch_threads(3, [&](const Communicator& world) {
    const OnDevice x(1), y(0);
    world.barrier();
    const int64_t before = runtime.host_waits();
    for (int step = 0; step < 5; ++step) {
      world.all_reduce(x.buffer());
      world.broadcast(x.buffer(), 1);
      const auto sent = world.isend(x.buffer(), (world.rank() + 1) % 3);
      world.recv(y.buffer(), (world.rank() + 2) % 3);
      sent->wait();
      world.begin().all_reduce(y.buffer())->wait();
      world.stream().all_reduce(y.buffer()).wait();
    }
    world.barrier();
    EXPECT_EQ(runtime.host_waits(), before);
    world.barrier();
    EXPECT_EQ(x.read(), 243);
    EXPECT_EQ(y.read(), 9 * 243);
  });
}

// The other way round is a test of LibTorch's streams: these end with their thread.
TEST(DeviceStreams, of_ranks_follow_what_the_launching_thread_has_enqueued) {
  DelayedRuntime runtime;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const OnDevice x(1), y(2), z(3);
    device_runtime()->copy_box(x.buffer(), {}, {}, y.buffer(), {}, {});
    launch_threads(1, [&](const Communicator&) { device_runtime()->copy_box(z.buffer(), {}, {}, x.buffer(), {}, {}); });
    EXPECT_EQ(z.read(), 2);
  }
}

TEST(DeviceStreams, say_in_which_call_a_failure_of_a_device_came_up) {
  DelayedRuntime runtime;
  const OnDevice numbers[2] = {OnDevice(1), OnDevice(2)};  // which outlive what the peers do with them
  const std::string text = failure_of<CommunicationError>(2, [&](const Communicator& world) {
    if (world.rank() == 1) {
      DelayedRuntime::stream(DelayedRuntime::device(0)).enqueue([] { throw Error("the device is broken"); });
      while (!DelayedRuntime::stream(DelayedRuntime::device(0)).is_idle()) std::this_thread::yield();
    }
    world.all_reduce(numbers[world.rank()].buffer());
    world.barrier();
  });
  EXPECT_NE(text.find("rank 1: all_reduce #1"), std::string::npos) << text;
  EXPECT_NE(text.find("the device is broken"), std::string::npos) << text;

  // After the calls were compared: the peers do not wait for the rank that has failed.
  runtime.before_reduction = [first = std::make_shared<std::atomic<bool>>(true)] {
    if (first->exchange(false)) throw Error("the device is full");
  };
  const std::string later = failure_of<CommunicationError>(2, [&](const Communicator& world) {
    world.all_reduce(numbers[world.rank()].buffer());
    world.barrier();
  });
  EXPECT_NE(later.find("all_reduce #1"), std::string::npos) << later;
  EXPECT_NE(later.find("the device is full"), std::string::npos) << later;
}

TEST(DeviceStreams, find_calls_that_do_not_match_and_ranks_that_wait_for_each_other) {
  DelayedRuntime runtime;
  const std::string mismatch = failure_of<CommunicationError>(2, [](const Communicator& world) {
    const OnDevice x(1);
    world.rank() == 0 ? world.all_reduce(x.buffer()) : world.broadcast(x.buffer(), 0);
  });
  EXPECT_NE(mismatch.find("mismatched collectives"), std::string::npos) << mismatch;
  EXPECT_NE(mismatch.find("float32 x 1 on privateuseone:0"), std::string::npos) << mismatch;
  const std::string deadlock = failure_of<CommunicationError>(2, [](const Communicator& world) {
    const OnDevice x(1);
    world.recv(x.buffer(), 1 - world.rank());
  });
  EXPECT_NE(deadlock.find("deadlock"), std::string::npos) << deadlock;
}

}  // namespace
}  // namespace adjoin
