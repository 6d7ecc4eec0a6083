// Calls between ranks whose tensors are on a device.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/tested_device.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

at::Tensor on_device(const std::vector<double>& values, at::ScalarType type) {
  return at::tensor(values, at::kDouble).to(type).to(tested_device());
}
std::vector<double> values_of(const at::Tensor& x) {
  const at::Tensor values = x.cpu().to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}
at::Tensor empty(int64_t count, at::ScalarType type) {
  return at::empty({count}, at::device(tested_device()).dtype(type));
}

/// Results that each rank knows from the ranks' numbers alone.
void expect_collectives(const Communicator& world, at::ScalarType type) {
  const int size = world.size(), me = world.rank();
  const std::vector<int64_t> one_each(static_cast<size_t>(size), 1);
  std::vector<double> numbers, sums;  // 1, 2, … of the ranks
  double total = 0;
  for (int rank = 0; rank < size; ++rank) {
    numbers.push_back(rank + 1);
    total += rank + 1;
  }
  for (int rank = 0; rank < size; ++rank) sums.push_back(total);
  const double mine = me + 1;

  const at::Tensor sum = on_device({mine}, type);
  world.all_reduce(buffer(sum));
  EXPECT_EQ(values_of(sum), (std::vector{total}));
  const at::Tensor last = on_device({mine}, type);
  world.broadcast(buffer(last), size - 1);
  EXPECT_EQ(values_of(last), (std::vector{static_cast<double>(size)}));
  const at::Tensor of_root = on_device({mine}, type);  // its input too
  world.reduce(buffer(of_root), buffer(of_root), Reduction::max, 0);
  EXPECT_EQ(values_of(of_root), (std::vector{me == 0 ? size : mine}));
  const at::Tensor all = empty(size, type);
  world.all_gather(buffer(on_device({mine}, type)), buffer(all), one_each);
  EXPECT_EQ(values_of(all), numbers);
  const at::Tensor gathered = on_device(std::vector<double>(static_cast<size_t>(size), 0), type);
  world.gather(buffer(on_device({mine}, type)), buffer(gathered), one_each, 0);
  EXPECT_EQ(values_of(gathered), me == 0 ? numbers : std::vector<double>(static_cast<size_t>(size), 0));
  const at::Tensor scattered = empty(1, type);
  world.scatter(buffer(all), buffer(scattered), one_each, 0);
  EXPECT_EQ(values_of(scattered), (std::vector{mine}));
  const at::Tensor exchanged = empty(size, type);
  world.all_to_all(buffer(on_device(std::vector<double>(static_cast<size_t>(size), mine), type)), one_each,
                   buffer(exchanged), one_each);
  EXPECT_EQ(values_of(exchanged), numbers);
  const at::Tensor summed = all.clone(), block = summed.narrow(0, me, 1);  // `out` is a part of `in`
  world.reduce_scatter(buffer(summed), buffer(block), one_each);
  EXPECT_EQ(values_of(block), (std::vector{size * mine}));
}

TEST(DeviceCalls, of_every_collective_and_element_type_have_their_results) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const at::ScalarType type :
         {at::kByte, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble})
      expect_collectives(world, type);
  });
}

TEST(DeviceCalls, send_boxes_and_begun_messages) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const int size = world.size(), me = world.rank(), next = (me + 1) % size, previous = (me + size - 1) % size;
    const at::Tensor x = (at::arange(12, at::kDouble).view({3, 4}) + 100 * me).to(tested_device());
    const at::Tensor y = at::zeros({4, 3}, x.options());
    const at::Tensor from = x.narrow(1, 1, 2), to = y.narrow(0, 0, 2).t();  // columns of x become rows of y
    Message send = send_of({from.data_ptr(), 6, ElementType::float64, buffer_device(from)}, next, 0);
    Message receive = receive_of({to.data_ptr(), 6, ElementType::float64, buffer_device(to)}, previous, 0);
    const std::vector<int64_t> sizes{3, 2}, of_x{4, 1}, of_y{1, 3};
    send.sizes = receive.sizes = sizes;
    send.strides = of_x;
    receive.strides = of_y;
    const Message messages[] = {receive, send};
    world.exchange(messages);
    const at::Tensor expected = (at::arange(12, at::kDouble).view({3, 4}) + 100 * previous).narrow(1, 1, 2);
    EXPECT_TRUE(to.cpu().equal(expected));
    EXPECT_EQ(y.cpu().narrow(0, 2, 2).abs().sum().item<double>(), 0);  // beside the box

    const auto sent = world.isend(buffer(x), next);
    const at::Tensor received = at::empty_like(x);
    world.recv(buffer(received), previous);
    sent->wait();
    const at::Tensor begun = x.clone();
    world.begin().all_reduce(buffer(begun))->wait();
    EXPECT_EQ(values_of(received)[0], 100 * previous);
    EXPECT_EQ(values_of(begun)[0], 100 * size * (size - 1) / 2);
  });
}

TEST(DeviceCalls, with_tensors_on_several_devices_are_refused_in_one_line) {
  const at::Tensor here = at::ones({2}, at::device(kSimulated)), host = at::ones({2}),
                   other = at::ones({2}, at::Device(at::kPrivateUse1, 1));
  const std::string mixed = thrown_by<InvalidArgument>(
      [&] { Communicator().all_gather(buffer(here), buffer(host), std::vector<int64_t>{2}); });
  EXPECT_NE(mixed.find("expected 'in' and 'out' on one device, got privateuseone:0 and cpu"), std::string::npos)
      << mixed;
  const std::string two = thrown_by<InvalidArgument>(
      [&] { Communicator().all_gather(buffer(here), buffer(other), std::vector<int64_t>{2}); });
  EXPECT_NE(two.find("got privateuseone:0 and privateuseone:1"), std::string::npos) << two;
  if (started_by_mpi()) return;
  const std::string ranks = failure_of<CommunicationError>(2, [](const Communicator& world) {
    const at::Tensor x = at::ones({2}, at::device(world.rank() == 0 ? at::Device(at::kCPU) : kSimulated));
    world.all_reduce(buffer(x));
  });
  EXPECT_NE(ranks.find("float32 x 2 on privateuseone:0"), std::string::npos) << ranks;
}

TEST(DeviceCalls, wait_for_the_device_where_an_algorithm_moves_copies_on_the_host) {
  const at::Tensor x = at::ones({8}, at::device(kSimulated)), all = at::empty_like(x);
  const std::vector<int64_t> counts{8};
  const int64_t before = host_waits();
  Communicator().all_gather(buffer(x), buffer(all), counts);
  EXPECT_EQ(host_waits() - before, 0);
  Communicator().with_algorithm(Collective::all_gather, "ring").all_gather(buffer(x), buffer(all), counts);
  EXPECT_EQ(host_waits() - before, 1);
  Communicator().with_algorithm(Collective::all_reduce, "ring").all_reduce(buffer(x));  // of one rank: nothing to do
  EXPECT_EQ(host_waits() - before, 1);
}

TEST(DeviceCalls, give_0_or_1_in_logical_reductions_of_one_rank) {
  const at::Tensor x = on_device({5, 0}, at::kInt);
  Communicator().all_reduce(buffer(x), Reduction::logical_or);
  EXPECT_EQ(values_of(x), (std::vector<double>{1, 0}));
}

TEST(DeviceCalls, have_the_bits_of_those_on_the_cpu) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble})
      for (const Reduction reduction : {Reduction::sum, Reduction::average, Reduction::product}) {
        const at::Tensor x = at::randn({1001}).to(type).to(tested_device()), y = x.cpu();
        world.deterministic().all_reduce(buffer(x), reduction);
        world.deterministic().all_reduce(buffer(y), reduction);
        EXPECT_TRUE(x.cpu().equal(y)) << type << ' ' << name(reduction);
      }
  });
}

}  // namespace
}  // namespace adjoin
