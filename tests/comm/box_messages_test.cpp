#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/boxes.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using testing::failure_of;
using testing::for_each_world;
using testing::other_sizes;
using testing::random_box;
using testing::random_sizes;
using testing::RandomBox;
using testing::thrown_by;

/// One box on its way from one rank to another, as both see it; all ranks draw the same.
struct Parcel {
  int from, to;
  bool is_packed_to = false, is_packed_from = false;  // contiguous on that side
  RandomBox sent, received;
  std::vector<int32_t> source, target, expected;

  Parcel(int from_rank, int to_rank, std::mt19937& random) : from(from_rank), to(to_rank) {
    const auto sizes = random() % 10 == 0 ? std::vector<int64_t>{150, 150} : random_sizes(random);
    sent = random_box(sizes, /*is_read=*/true, random);
    received = random_box(random() % 2 ? sizes : other_sizes(sent.count(), random), /*is_read=*/false, random);
    is_packed_from = random() % 5 == 0;
    is_packed_to = random() % 5 == 0;
    const auto most = static_cast<size_t>(std::max({sent.extent, received.extent, sent.count()}));
    for (size_t i = 0; i < most; ++i) source.push_back(static_cast<int32_t>(random() % 1000));
    target.assign(most, -1);
    expected = target;
    for (int64_t i = 0; i < sent.count(); ++i)
      expected[static_cast<size_t>(is_packed_to ? i : received.place(i))] =
          source[static_cast<size_t>(is_packed_from ? i : sent.place(i))];
  }

  Message send(int tag) {
    const Buffer elements = buffer(source).slice(0, sent.count());
    if (is_packed_from) return {Message::Kind::send, to, elements, tag};
    return {Message::Kind::send, to, elements, tag, sent.sizes, sent.strides};
  }
  Message receive(int tag) {
    const Buffer elements = buffer(target).slice(0, sent.count());
    if (is_packed_to) return {Message::Kind::receive, from, elements, tag};
    return {Message::Kind::receive, from, elements, tag, received.sizes, received.strides};
  }
};

/// The messages of some parcels between all ranks that are this rank's.
std::vector<Message> messages_of(std::vector<Parcel>& parcels, int rank) {
  std::vector<Message> messages;
  for (size_t i = 0; i < parcels.size(); ++i) {
    if (parcels[i].from == rank) messages.push_back(parcels[i].send(static_cast<int>(i)));
    if (parcels[i].to == rank) messages.push_back(parcels[i].receive(static_cast<int>(i)));
  }
  return messages;
}

std::vector<Parcel> random_parcels(int ranks, std::mt19937& random) {
  std::vector<Parcel> parcels;
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) parcels.emplace_back(from, to, random);
  return parcels;
}

TEST(BoxMessage, arrives_element_by_element_whatever_the_boxes_of_both_sides) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    std::mt19937 random(5);
    for (int round = 0; round < (testing::kIsSanitized ? 10 : 60); ++round) {
      auto parcels = random_parcels(world.size(), random);
      world.exchange(messages_of(parcels, world.rank()));
      for (const Parcel& parcel : parcels)
        if (parcel.to == world.rank()) {
          ASSERT_EQ(parcel.target, parcel.expected) << "in round " << round << " from rank " << parcel.from;
        }
    }
  });
}

TEST(BoxMessage, may_be_asynchronous_and_its_lists_are_copied) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const AsyncCommunicator async(world);
    std::mt19937 random(6);
    auto parcels = random_parcels(world.size(), random);
    std::vector<RandomBox> boxes;
    auto messages = messages_of(parcels, world.rank());
    const Handle handle = async.exchange(messages);
    messages.clear();
    for (Parcel& parcel : parcels) parcel.sent = parcel.received = {};
    handle.wait();
    for (const Parcel& parcel : parcels)
      if (parcel.to == world.rank()) {
        EXPECT_EQ(parcel.target, parcel.expected);
      }
  });
}

TEST(BoxMessage, of_ranks_that_send_to_each_other_is_right_at_every_length) {
  for_each_world({2, 4}, [](const Communicator& world) {
    const int peer = world.rank() ^ 1;
    if (peer >= world.size()) return;
    for (const int64_t n : {1, 10, 63, 64, 65, 300}) {
      std::vector<float> mine(static_cast<size_t>(n * n), static_cast<float>(world.rank())), got(mine.size());
      for (size_t i = 0; i < mine.size(); ++i) mine[i] += static_cast<float>(2 * i);
      const std::vector<int64_t> sizes{n, n}, rows{n, 1}, columns{1, n};
      for (int round = 0; round < 5; ++round) {
        const Message both[] = {{Message::Kind::send, peer, buffer(mine), 0, sizes, rows},
                                {Message::Kind::receive, peer, buffer(got), 0, sizes, columns}};
        world.exchange(both);
        EXPECT_EQ(got[static_cast<size_t>(n * n - 1)], static_cast<float>(peer + 2 * (n * n - 1)));
        EXPECT_EQ(got[static_cast<size_t>(n - 1)], static_cast<float>(peer + 2 * (n - 1) * n));
      }
    }
  });
}

std::string failure_with(Message::Kind kind, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  std::vector<float> x(6);
  const Message message{kind, 0, buffer(x), 0, sizes, strides};
  return thrown_by<InvalidArgument>([&] { Communicator().exchange({&message, 1}); });
}

TEST(BoxMessage, is_checked_before_anything_is_sent) {
  using enum Message::Kind;
  EXPECT_NE(failure_with(send, {2, 3}, {3}).find("expected 2 strides, one for each size, got 1"), std::string::npos);
  EXPECT_NE(failure_with(send, {-2, -3}, {3, 1}).find("expected no negative size, got -2"), std::string::npos);
  EXPECT_NE(
      failure_with(send, {2, 2}, {3, 1}).find("expected sizes with a product of 6, the count of the buffer, got 4"),
      std::string::npos);
  EXPECT_NE(failure_with(receive, {2, 3}, {0, 1}).find("expected a stride other than 0"), std::string::npos);
}

TEST(Mismatch, of_the_lengths_of_boxes_is_told_on_both_ranks) {
  const std::string text = failure_of<CommunicationError>(2, [](const Communicator& world) {
    std::vector<float> x(12);
    const std::vector<int64_t> sizes{2, world.rank() == 0 ? 3 : 2}, strides{4, 1};
    const auto kind = world.rank() == 0 ? Message::Kind::send : Message::Kind::receive;
    const Message message{kind, 1 - world.rank(), buffer(x).slice(0, sizes[0] * sizes[1]), 0, sizes, strides};
    world.exchange({&message, 1});
  });
  EXPECT_NE(text.find("is sent as float32 x 6"), std::string::npos) << text;
  EXPECT_NE(text.find("but received as float32 x 4"), std::string::npos) << text;
}

TEST(Launch, tells_whether_calls_are_checked) {
  for (const bool checked : {false, true})
    launch_threads(2,
                   [=](const Communicator& world) {
                     EXPECT_EQ(world.checked(), checked);
                     EXPECT_EQ(world.with_algorithm(Collective::broadcast, "tree").checked(), checked);
                     EXPECT_EQ(world.split(0, 0)->checked(), checked);
                   },
                   {.checked = checked});
}

TEST(BoxMessages, of_bytes_may_run_back) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.rank() > 1) return;
    const std::vector<int64_t> sizes{2, 4}, strides{5, -1};
    std::vector<uint8_t> bytes(16, 0), in_order{1, 2, 3, 4, 5, 6, 7, 8};
    if (world.rank() == 0) return world.send(buffer(in_order), 1);
    const Message box{Message::Kind::receive, 0, buffer(bytes).slice(4, 8), 0, sizes, strides};
    world.exchange({&box, 1});
    EXPECT_EQ(bytes, (std::vector<uint8_t>{0, 4, 3, 2, 1, 0, 8, 7, 6, 5, 0, 0, 0, 0, 0, 0}));
  });
}

}  // namespace
}  // namespace adjoin
