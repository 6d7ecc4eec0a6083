// Long messages, which go to other hosts in pieces.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using testing::for_each_world;

/// Element i of what a rank gives: sums over ranks are exact.
float given(int rank, int64_t i) {
  return static_cast<float>((rank * 7 + i * 3) % 1009);
}

float sum_over(int ranks, int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += given(rank, i);
  return sum;
}

TEST(LongMessages, are_right_of_any_length) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const int ranks = world.size(), self = world.rank();
    // Around the shortest message that goes in pieces, and around 16 times as many elements.
    for (const int64_t most : {65535, 65536, 65537, 65552, 1048575, 1048593, 1100003}) {
      std::vector<int64_t> counts(static_cast<size_t>(ranks), most);
      counts[1] = most / 3;
      const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
      const int64_t first = std::accumulate(counts.begin(), counts.begin() + self, int64_t{0});
      const int64_t own = counts[static_cast<size_t>(self)];
      std::vector<float> x(static_cast<size_t>(all)), got(static_cast<size_t>(ranks * most));
      for (int64_t i = 0; i < all; ++i) x[static_cast<size_t>(i)] = given(self, i);
      const Buffer block = buffer(got).slice(first, own);
      world.reduce_scatter(const_buffer(x), block, counts);
      world.all_gather(block, buffer(got).slice(0, all), counts);
      for (int64_t i = 0; i < all; ++i) ASSERT_EQ(got[static_cast<size_t>(i)], sum_over(ranks, i)) << most;
      const std::vector<int64_t> of_this(static_cast<size_t>(ranks), own);
      world.all_to_all(const_buffer(x), counts, buffer(got).slice(0, ranks * own), of_this);
      for (int64_t i = 0; i < ranks * own; ++i)
        ASSERT_EQ(got[static_cast<size_t>(i)], given(static_cast<int>(i / own), first + i % own)) << most;
      world.all_reduce(buffer(x));
      for (int64_t i = 0; i < all; ++i) ASSERT_EQ(x[static_cast<size_t>(i)], sum_over(ranks, i)) << most;
    }
  });
}

TEST(LongMessages, arrive_in_the_order_of_their_calls_whatever_describes_them) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
    constexpr int64_t kRows = 300, kColumns = 700, kAll = kRows * kColumns;
    const std::vector<int64_t> turned{kColumns, kRows},
        of_turned{1, kColumns};  // what lies in memory by rows, by columns
    const std::vector<int64_t> by_rows{kRows, kColumns}, of_rows{2 * kColumns, 2};
    std::vector<float> first(kAll), second(kAll), third{static_cast<float>(world.rank())}, got(kAll);
    std::iota(first.begin(), first.end(), static_cast<float>(world.rank()));
    std::iota(second.begin(), second.end(), static_cast<float>(2000000 + world.rank()));
    const Message sends[] = {{Message::Kind::send, next, buffer(first), 3, turned, of_turned},
                             {Message::Kind::send, next, buffer(third), 3},
                             {Message::Kind::send, next, buffer(second), 3}};
    if (world.rank() % 2 == 0) world.exchange(sends);
    const auto expect_turned = [&] {
      world.recv(buffer(got), before, 3);
      EXPECT_EQ(got[1], static_cast<float>(before + kColumns));
      EXPECT_EQ(got[kAll - 2], static_cast<float>(before + kAll - 1 - kColumns));
    };
    const auto expect_others = [&] {
      std::vector<float> one(1);
      world.recv(buffer(one), before, 3);
      EXPECT_EQ(one[0], static_cast<float>(before));
      std::vector<float> apart(2 * kAll);
      const Message box{Message::Kind::receive, before, buffer(apart).slice(0, kAll), 3, by_rows, of_rows};
      world.exchange({&box, 1});
      for (const int64_t i : {0, 12345, 65536, 100000, 209999})
        EXPECT_EQ(apart[static_cast<size_t>(2 * i)], static_cast<float>(2000000 + before + i));
    };
    expect_turned();
    expect_others();
    if (world.rank() % 2 == 1) world.exchange(sends);
  });
}

}  // namespace
}  // namespace adjoin
