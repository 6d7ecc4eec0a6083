// Calls between ranks that stay on a device: each rank enqueues on its own stream.

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "adjoin/base/carried_state.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/sent_tensors.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "tests/support/delayed_stream.hpp"
#include "tests/support/device_calls.hpp"
#include "tests/support/tested_device.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

/// One of the two devices: all ranks on one, or by turns.
at::Device device_for(const Communicator& world, bool on_two) {
  return tested_device(on_two ? world.rank() % 2 : 0);
}

c10::StreamId current_stream_id() {
  return c10::impl::VirtualGuardImpl(tested_device().type()).getStream(tested_device()).id();
}

TEST(DeviceStreams, carry_out_random_calls_as_the_host_does) {
  const OftenLate late;
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const bool on_two : {false, true})
      for (uint32_t seed = 0; seed < 2; ++seed) {
        const auto on = at::device(device_for(world, on_two)).dtype(at::kByte);
        const auto allocate = [&](int64_t bytes, Device) {
          const at::Tensor memory = at::empty({bytes}, on);
          return std::shared_ptr<void>(memory.data_ptr(), [memory](void*) {});
        };
        DeviceCalls(world, seed, buffer_device(at::empty({1}, on)), allocate).run(20);
      }
  });
}

TEST(DeviceStreams, are_a_ranks_own_and_those_of_its_other_threads) {
  launch_threads(3, [](const Communicator& world) {
    const c10::StreamId mine = current_stream_id();
    std::vector<int64_t> all(3);
    world.all_gather(const_buffer(int64_t{mine}), buffer(all), std::vector<int64_t>{1, 1, 1});
    EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 3U);
    std::thread([give = carried_state(), mine] {
      give();
      EXPECT_EQ(current_stream_id(), mine);
    }).join();
  });
}

TEST(DeviceStreams, read_what_was_sent_before_its_memory_is_used_again) {
  const OftenLate late;
  for_each_world({2}, [](const Communicator& world) {
    SentTensors sent;
    for (int step = 0; step < 30; ++step) {
      const auto options = at::device(device_for(world, step % 2 == 1)).dtype(at::kDouble);
      const at::Tensor received = at::empty({50}, options);
      {
        const at::Tensor x = at::empty({50}, options);
        x.fill_(step + 100 * world.rank());
        sent.send(x, world, 1 - world.rank(), 0);
      }
      world.recv(buffer(received), 1 - world.rank());
      world.barrier();  // so both were received
      sent.drop_received();
      const at::Tensor next = at::empty({50}, options);
      next.fill_(-1);
      EXPECT_TRUE(received.cpu().eq(step + 100 * (1 - world.rank())).all().item<bool>()) << step;
    }
    sent.wait();
  });
}

// What a rank has enqueued when the launch ends is waited for by the thread that launched it, and the other way round.
TEST(DeviceStreams, of_ranks_follow_what_the_launching_thread_has_enqueued_and_go_before_what_follows) {
  const OftenLate late;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const at::Tensor x = at::ones({1}, at::device(tested_device())), y = x * 2, z = x * 3;
    x.copy_(y);
    launch_threads(1, [&](const Communicator&) {
      y.copy_(z);
      z.copy_(x);
    });
    EXPECT_EQ(y.item<float>(), 3);
    EXPECT_EQ(z.item<float>(), 2);
  }
}

TEST(DeviceStreams, go_on_beside_the_host) {
  if (started_by_mpi()) return;  // whose calls are staged
  launch_threads(2, [](const Communicator& world) {
    const auto options = at::device(device_for(world, true));
    const at::Tensor x = at::ones({8}, options), y = at::empty({8}, options), all = at::empty({16}, options);
    world.stream();  // making it is a call between ranks too
    world.barrier();
    const int64_t before = host_waits();
    for (int step = 0; step < 3; ++step) {
      world.all_reduce(buffer(x));
      world.all_gather(buffer(x), buffer(all), std::vector<int64_t>{8, 8});
      world.sendrecv(buffer(x), 1 - world.rank(), buffer(y), 1 - world.rank());
      const auto sent = world.isend(buffer(y), 1 - world.rank());
      world.recv(buffer(x), 1 - world.rank());
      sent->wait();
      world.begin().all_reduce(buffer(x))->wait();
      world.stream().all_reduce(buffer(x)).wait();
    }
    world.barrier();
    EXPECT_EQ(host_waits(), before);
    world.barrier();
    EXPECT_TRUE(x.cpu().eq(512).all().item<bool>());
  });
}

}  // namespace
}  // namespace adjoin
