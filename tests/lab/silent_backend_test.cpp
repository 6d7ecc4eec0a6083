#include "adjoin/lab/silent_backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::lab {
namespace {

using ::testing::ElementsAre;

Communicator lone_rank(int rank, int size) {
  return Communicator(std::make_shared<SilentBackend>(rank, size));
}

TEST(SilentBackend, ends_calls_of_a_million_ranks_at_once) {
  const Communicator world = lone_rank(999'999, 1'000'000);
  std::vector<double> x{1, 2};
  world.all_reduce(buffer(x));
  EXPECT_THAT(x, ElementsAre(1, 2));
  world.barrier();
  const std::array<int, 3> members{5, 999'999, 7};
  const Communicator part = world.subset(members);
  EXPECT_EQ(part.rank(), 1);
  EXPECT_EQ(part.size(), 3);
}

TEST(SilentBackend, gives_this_ranks_block_or_zeros_for_what_other_ranks_would_have_sent) {
  const Communicator world = lone_rank(1, 3);
  std::vector<float> mine{4, 5}, all(6, 9);
  world.all_gather(buffer(mine), buffer(all), std::vector<int64_t>{1, 2, 3});
  EXPECT_THAT(all, ElementsAre(4, 4, 5, 4, 5, 0));
  const std::vector<float> sent{1, 2, 3, 4};
  world.all_to_all(const_buffer(sent), std::vector<int64_t>{1, 2, 1}, buffer(all), std::vector<int64_t>{1, 2, 3});
  EXPECT_THAT(all, ElementsAre(2, 2, 3, 2, 3, 0));
  std::vector<int32_t> received(3, 9);
  world.recv(buffer(received), 0);
  EXPECT_THAT(received, ElementsAre(0, 0, 0));
}

TEST(SilentBackend, fills_a_box_and_leaves_what_lies_between) {
  std::vector<int32_t> memory(6, 9);
  const std::vector<int64_t> sizes{2, 1}, strides{3, 1};
  Message message = receive_of(Buffer{memory.data() + 1, 2, ElementType::int32}, /*from=*/0, /*tag=*/0);
  message.sizes = sizes;
  message.strides = strides;
  lone_rank(1, 2).exchange(std::array{message});
  EXPECT_THAT(memory, ElementsAre(9, 0, 9, 9, 0, 9));
}

}  // namespace
}  // namespace adjoin::lab
