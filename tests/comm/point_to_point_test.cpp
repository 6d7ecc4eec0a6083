#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using testing::failure_of;
using testing::for_each_world;

TEST(Send, reaches_the_receive_of_its_tag_whatever_the_order) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    std::vector<int32_t> first{1, 2}, second{3}, got(2), got_second(1);
    if (world.rank() == 0) {
      const Message both[] = {{Message::Kind::send, 1, buffer(first), 7}, {Message::Kind::send, 1, buffer(second), 8}};
      world.exchange(both);
    } else if (world.rank() == 1) {
      world.recv(buffer(got_second), 0, 8);
      world.recv(buffer(got), 0, 7);
      EXPECT_EQ(got, first);
      EXPECT_EQ(got_second, second);
    }
  });
}

TEST(Send, keeps_the_order_of_messages_with_one_tag) {
  for_each_world({2, 4}, [](const Communicator& world) {
    if (world.rank() == 0 && world.size() > 1) {
      for (int32_t i = 0; i < 100; ++i) world.send(const_buffer(std::vector<int32_t>{i}), 1);
    }
    if (world.rank() == 1)
      for (int32_t i = 0; i < 100; ++i) {
        std::vector<int32_t> got(1);
        world.recv(buffer(got), 0);
        EXPECT_EQ(got[0], i);
      }
  });
}

TEST(Send, of_no_elements_is_a_message_too) {
  for_each_world({2}, [](const Communicator& world) {
    if (world.rank() == 0 && world.size() > 1) world.send({}, 1);
    if (world.rank() == 1) {
      EXPECT_NO_THROW(world.recv({}, 0));
    }
  });
}

TEST(Isend, lets_ranks_send_before_each_other_receives) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    if (world.size() < 2 || world.rank() > 1) return;
    const int peer = 1 - world.rank();
    for (const int64_t count : {0, 3, 100'000}) {
      const auto values = [count](int rank, int tag) {
        return std::vector<double>(static_cast<size_t>(count), 10 * rank + tag);
      };
      std::vector<std::vector<double>> sent;
      std::vector<std::unique_ptr<Pending>> sending;
      for (int tag = 0; tag < 4; ++tag) sent.push_back(values(world.rank(), tag));
      for (int tag = 0; tag < 4; ++tag)
        sending.push_back(world.isend(const_buffer(sent[static_cast<size_t>(tag)]), peer, tag));
      for (int tag = 3; tag >= 0; --tag) {
        std::vector<double> got(static_cast<size_t>(count));
        world.recv(buffer(got), peer, tag);
        EXPECT_EQ(got, values(peer, tag));
      }
      sending.pop_back();  // which waits
      for (const auto& each : sending) each->wait();
    }
  });
}

TEST(Isend, keeps_its_place_among_messages_of_one_tag) {
  for_each_world({2}, [](const Communicator& world) {
    if (world.size() < 2) return;
    std::vector<int32_t> numbers{0, 1, 2, 3};
    if (world.rank() == 0) {
      std::vector<std::unique_ptr<Pending>> sending;
      for (const int32_t& number : numbers) sending.push_back(world.isend({&number, 1, ElementType::int32}, 1));
      for (const auto& each : sending) each->wait();
    } else if (world.rank() == 1) {
      for (const int32_t expected : numbers) {
        int32_t got = -1;
        world.recv({&got, 1, ElementType::int32}, 0);
        EXPECT_EQ(got, expected);
      }
    }
  });
}

TEST(Isend, that_nobody_receives_is_told_as_a_deadlock) {
  const std::string said = failure_of<CommunicationError>(2, [](const Communicator& world) {
    const std::vector<int32_t> numbers(100'000);
    if (world.rank() == 0) world.isend(const_buffer(numbers), 1, 5)->wait();
    if (world.rank() == 1) world.barrier();
  });
  EXPECT_THAT(said,
              ::testing::AllOf(::testing::HasSubstr("deadlock"), ::testing::HasSubstr("isend #1 (to rank 1, tag 5"),
                               ::testing::HasSubstr("barrier #1")));
}

TEST(Isend, that_differs_from_its_receive_is_told_with_both_calls) {
  const std::string said = failure_of<CommunicationError>(2, [](const Communicator& world) {
    std::vector<int32_t> numbers(3);
    if (world.rank() == 0) world.isend(const_buffer(numbers), 1)->wait();
    std::vector<float> other(3);
    if (world.rank() == 1) world.recv(buffer(other), 0);
  });
  EXPECT_THAT(said,
              ::testing::AllOf(::testing::HasSubstr("sent as int32 x 3"), ::testing::HasSubstr("received as float32")));
}

TEST(Isend, ended_by_an_exception_ends_the_world_with_that_cause) {
  const std::string said = failure_of<InvalidArgument>(2, [](const Communicator& world) {
    const std::vector<int32_t> numbers(100'000);
    if (world.rank() == 0) {
      const auto sending = world.isend(const_buffer(numbers), 1);
      throw InvalidArgument("the cause");
    }
    world.barrier();
  });
  EXPECT_THAT(said, ::testing::HasSubstr("the cause"));
}

TEST(Sendrecv, goes_around_a_ring_and_to_itself) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    std::vector<double> mine(3000, world.rank()), got(3000, -1.0);
    const int next = (world.rank() + 1) % world.size(), previous = (world.rank() + world.size() - 1) % world.size();
    world.sendrecv(const_buffer(mine), next, buffer(got), previous);
    EXPECT_EQ(got, std::vector<double>(3000, previous));
    world.sendrecv(const_buffer(mine), world.rank(), buffer(got), world.rank());
    EXPECT_EQ(got, mine);
  });
}

TEST(Exchange, completes_many_messages_to_all_and_to_itself_at_once) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const int n = world.size(), me = world.rank();
    std::vector<std::vector<int64_t>> out, in;
    std::vector<Message> messages;
    for (int peer = 0; peer < n; ++peer)
      for (int tag = 0; tag < 3; ++tag) {
        out.push_back(std::vector<int64_t>(static_cast<size_t>(peer + tag), 100 * me + 10 * peer + tag));
        in.push_back(std::vector<int64_t>(static_cast<size_t>(me + tag)));
      }
    for (int peer = 0; peer < n; ++peer)
      for (int tag = 0; tag < 3; ++tag) {
        const auto i = static_cast<size_t>(3 * peer + tag);
        messages.push_back({Message::Kind::send, peer, buffer(out[i]), tag});
        messages.push_back({Message::Kind::receive, peer, buffer(in[i]), tag});
      }
    world.exchange(messages);
    for (int peer = 0; peer < n; ++peer)
      for (int tag = 0; tag < 3; ++tag) {
        const std::vector<int64_t> expected(static_cast<size_t>(me + tag), 100 * peer + 10 * me + tag);
        EXPECT_EQ(in[static_cast<size_t>(3 * peer + tag)], expected);
      }
  });
}

TEST(Send, does_not_meet_a_receive_of_another_group_nor_a_collective) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    std::vector<int> all(static_cast<size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    const Communicator other = world.subset(all);
    std::vector<float> a{1}, b{2}, got_a(1), got_b(1);
    if (world.rank() == 0) {
      const Message in_other{Message::Kind::send, 1, buffer(b), 0};
      world.sendrecv(const_buffer(a), 1, {}, 1, 0);
      other.exchange({&in_other, 1});
    } else if (world.rank() == 1) {
      world.sendrecv({}, 0, buffer(got_a), 0, 0);
      other.recv(buffer(got_b), 0, 0);
      EXPECT_EQ(got_a, a);
      EXPECT_EQ(got_b, b);
    }
    world.barrier();
  });
}

TEST(Send, with_another_length_than_its_receive_says_so_with_both_places) {
  const std::string message = failure_of<CommunicationError>(2, [](const Communicator& world) {
    std::vector<float> x(5);
    if (world.rank() == 0) {
      EXPECT_THROW(world.send(const_buffer(x), 1, 3), CommunicationError);
    } else {
      world.recv({x.data(), 4, ElementType::float32}, 0, 3);
    }
  });
  EXPECT_NE(message.find("the message of rank 0 to rank 1 with tag 3"), std::string::npos) << message;
  EXPECT_NE(message.find("sent as float32 x 5 by send #1"), std::string::npos) << message;
  EXPECT_NE(message.find("received as float32 x 4 by recv #1"), std::string::npos) << message;
  EXPECT_NE(message.find("point_to_point_test.cpp:"), std::string::npos) << message;
}

TEST(Send, to_itself_that_nobody_receives_throws_instead_of_waiting) {
  const std::string message = failure_of<CommunicationError>(2, [](const Communicator& world) {
    std::vector<float> x(1);
    world.send(const_buffer(x), world.rank());
  });
  // Either rank may be the first to be found.
  EXPECT_NE(message.find("send #1 (to rank "), std::string::npos) << message;
  EXPECT_NE(message.find(", waits for rank "), std::string::npos) << message;
}

TEST(Receive, from_a_rank_that_has_returned_throws_instead_of_waiting) {
  const std::string message = failure_of<CommunicationError>(2, [](const Communicator& world) {
    std::vector<float> x(1);
    if (world.rank() == 0) world.recv(buffer(x), 1);
  });
  EXPECT_NE(message.find("waits for rank 1\n  rank 1: has returned"), std::string::npos) << message;
}

}  // namespace
}  // namespace adjoin
