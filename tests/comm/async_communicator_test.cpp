#include "adjoin/comm/async_communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/every_operation.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/hosts_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using ::testing::AllOf;
using testing::failure_of;
using testing::for_each_world;
using ::testing::HasSubstr;

using Counts = std::vector<int64_t>;

/// Whether it is done before long, without anybody's waiting for it.
bool ends_by_itself(const Handle& handle) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!handle.done() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  return handle.done();
}

TEST(AsyncCommunicator, carries_out_every_operation) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const AsyncCommunicator async(world);
    for (const size_t each : {3u, 3000u})
      expect_every_operation(world, async, each, [&] { world.barrier(); });  // of another group: the two never meet
  });
}

TEST(AsyncCommunicator, goes_on_while_the_caller_does_something_else) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const AsyncCommunicator async(world);
    std::vector<float> x(5, 1.0f);
    const Handle handle = async.all_reduce(buffer(x));
    EXPECT_TRUE(ends_by_itself(handle));
    EXPECT_EQ(x, std::vector<float>(5, static_cast<float>(world.size())));
    handle.wait();
  });
}

TEST(AsyncCommunicator, keeps_the_order_of_calls) {
  for_each_world({1, 2, 4}, [](const Communicator& world) {
    const AsyncCommunicator async(world);
    for (int round = 0; round < 200; ++round) {
      std::vector<int32_t> x{1};
      const Handle first = async.all_reduce(buffer(x));
      const Handle second = async.run([&](const Communicator& group) {
        for (int32_t& v : x) v *= 10;
        group.all_reduce(buffer(x));
      });
      (round % 3 == world.rank() % 3 ? first : second).wait();
      second.wait();
      ASSERT_EQ(x[0], 10 * world.size() * world.size());
    }
  });
}

TEST(AsyncCommunicator, refuses_wrong_arguments_in_the_call) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const AsyncCommunicator async(world);
    std::vector<float> x(4);
    EXPECT_THROW((void)async.broadcast(buffer(x), world.size()), InvalidArgument);
    EXPECT_THROW((void)async.recv(buffer(x), 0, -1), InvalidArgument);
    EXPECT_THROW((void)async.all_gather(buffer(x), buffer(x), Counts{1}), InvalidArgument);
  });
}

TEST(AsyncCommunicator, carries_out_what_nobody_waited_for_before_its_handle_is_gone) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    std::vector<float> x(7, 2.0f);
    { const Handle handle = AsyncCommunicator(world).all_reduce(buffer(x)); }
    EXPECT_EQ(x, std::vector<float>(7, 2.0f * static_cast<float>(world.size())));
  });
}

TEST(AsyncDeadlock, of_operations_in_opposite_order_is_found_at_once) {
  const std::string message = failure_of<CommunicationError>(2, [](const Communicator& world) {
    const AsyncCommunicator one(world), two(world);
    std::vector<float> x(1);
    const Handle handle = one.all_reduce(buffer(x));
    if (world.rank() == 0) {
      handle.wait();
      two.barrier().wait();
    } else {
      world.recv(buffer(x), 0);  // before its all_reduce is waited for, which does no harm; but nobody sends
      handle.wait();
    }
  });
  EXPECT_THAT(message, AllOf(HasSubstr("deadlock"), HasSubstr("recv #"), HasSubstr("barrier #1"),
                             HasSubstr("async_communicator_test.cpp:")));
}

TEST(AsyncFailure, ends_what_is_under_way_and_tells_the_first_cause) {
  for (int round = 0; round < 20; ++round) {
    const std::string message = failure_of<InvalidArgument>(3, [](const Communicator& world) {
      const AsyncCommunicator async(world);
      std::vector<double> x(20000);
      std::vector<Handle> handles;
      for (int i = 0; i < 5; ++i) handles.push_back(async.all_reduce(buffer(x)));
      if (world.rank() == 1) throw InvalidArgument("expected fuel, got water");
      for (;;) async.all_reduce(buffer(x)).wait();
    });
    EXPECT_EQ(message, "rank 1: expected fuel, got water");
  }
}

TEST(AsyncFailure, of_one_task_is_that_of_all_later_ones_and_ends_the_world) {
  std::atomic<int> told = 0;
  const std::string message = failure_of<Error>(2, [&](const Communicator& world) {
    const AsyncCommunicator async(world);
    world.barrier();  // both have one before the world ends
    const Handle bad = async.run([&](const Communicator& group) {
      if (group.rank() == 1) throw std::runtime_error("the pump is dry");
      group.barrier();
    });
    const Handle later = async.barrier();
    for (const Handle& handle : {bad, later}) {
      try {
        handle.wait();
      } catch (const std::runtime_error& e) {
        told += std::string(e.what()).find("the pump is dry") != std::string::npos;
      }
    }
    later.wait();
  });
  EXPECT_EQ(told, 4);
  EXPECT_EQ(message, "rank 1: the pump is dry");
}

TEST(AsyncFailure, that_nobody_waits_for_does_not_let_later_calls_pair_with_others) {
  std::atomic<bool> was_wrong = false;
  const std::string message = failure_of<Error>(2, [&](const Communicator& world) {
    const AsyncCommunicator async(world);
    std::vector<int32_t> first{1 + world.rank()}, second{10 * (1 + world.rank())};
    {
      const Handle dropped = async.run([&](const Communicator& group) {
        if (group.rank() == 1) throw std::runtime_error("no water");
        group.all_reduce(buffer(first));
      });
    }
    async.all_reduce(buffer(second)).wait();
    was_wrong = true;
  });
  EXPECT_FALSE(was_wrong);
  EXPECT_EQ(message, "rank 1: no water");
}

TEST(AsyncFailure, is_told_and_not_what_others_make_of_it) {
  for (int round = 0; round < 100; ++round) {
    const std::string message = failure_of<InvalidArgument>(3, [](const Communicator& world) {
      const AsyncCommunicator async(world);
      std::vector<double> x(2000);
      const Handle handle = async.all_reduce(buffer(x)), other = async.barrier();
      if (world.rank() == 1) throw InvalidArgument("expected fuel, got water");
      try {
        for (;;) async.all_reduce(buffer(x)).wait();
      } catch (const CommunicationError& e) {
        throw std::runtime_error(std::string("step 7 failed: ") + e.what() + " (sorry)");
      }
    });
    ASSERT_EQ(message, "rank 1: expected fuel, got water");
  }
}

TEST(AsyncFailure, of_a_wait_that_could_hang_is_told_in_the_call) {
  const std::string of_thread = failure_of<InvalidArgument>(2, [](const Communicator& world) {
    const AsyncCommunicator async(world);
    std::exception_ptr error;
    std::atomic<bool> may_end = false;
    {
      const Handle handle = async.run([&](const Communicator&) {
        while (!may_end) std::this_thread::yield();
      });
      std::thread([&] {
        try {
          if (world.rank() == 0) handle.wait();
        } catch (...) {
          error = std::current_exception();
        }
      }).join();
      may_end = true;
    }
    if (error) std::rethrow_exception(error);
    world.barrier();
  });
  EXPECT_THAT(
      of_thread,
      HasSubstr(
          "rank 0: wait: expected the thread that made the AsyncCommunicator of the operation, got another thread"));
  const std::string of_task = failure_of<InvalidArgument>(1, [](const Communicator& world) {
    const AsyncCommunicator async(world);
    std::optional<Handle> later;
    std::atomic<bool> is_there = false;
    const Handle first = async.run([&](const Communicator&) {
      while (!is_there) std::this_thread::yield();
      later->wait();
    });
    later = async.barrier();
    is_there = true;
    first.wait();
  });
  EXPECT_THAT(of_task, HasSubstr("waits for a later task of the same stream"));
}

/// Counts what it sees.
class Counter : public Observer {
 public:
  void begin(const Call&) override { ++seen; }
  std::atomic<int> seen = 0;
};

TEST(KeptStream, is_one_for_all_copies_of_a_communicator) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto made = std::make_shared<testing::Made>();
    const auto counter = std::make_shared<Counter>();
    const Communicator group = testing::between_hosts(world, made), copy = group;
    const Communicator observed =
        world.rank() == 0 ? group.observed_by(counter) : group;  // who observes is no matter of others
    const auto sum = [&](const Communicator& of) {
      std::vector<int32_t> x{of.rank()};
      of.stream().all_reduce(buffer(x)).wait();
      EXPECT_EQ(x[0], of.size() * (of.size() - 1) / 2);
    };
    for (int time = 0; time < 3; ++time) {
      for (const Communicator& of : {observed, copy, group.with_algorithm(Collective::all_reduce, "ring")}) sum(of);
      EXPECT_EQ(*made, std::pair(1, 1));
      EXPECT_EQ(counter->seen, world.rank() == 0 ? time + 1 : 0);
    }
    sum(group.subset(std::vector<int>{world.rank()}));  // which is another group: one made, and one with a thread
    EXPECT_EQ(*made, std::pair(3, 2));
  });
}

TEST(KeptStream, ends_with_the_last_copy_of_its_communicator) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const auto made = std::make_shared<testing::Made>();  // which all backends that are made hold
    std::optional<Communicator> group = testing::between_hosts(world, made), copy = group;
    group->stream().barrier().wait();
    group.reset();
    copy->stream().barrier().wait();
    copy.reset();
    EXPECT_EQ(made.use_count(), 1);
  });
}

TEST(AsyncDeadlock, is_found_though_a_communicator_keeps_its_stream) {
  const auto failure = [](bool returns) {
    std::vector<std::optional<Communicator>> kept(2);  // after their threads have returned
    return failure_of<CommunicationError>(2, [&](const Communicator& world) {
      world.stream().barrier().wait();
      kept[static_cast<size_t>(world.rank())] = world;
      std::vector<float> x(1);
      if (world.rank() == 1 || !returns) world.recv(buffer(x), 1 - world.rank());
    });
  };
  EXPECT_THAT(failure(false), AllOf(HasSubstr("deadlock"), HasSubstr("recv #2"), HasSubstr("from rank 1")));
  EXPECT_THAT(failure(true), AllOf(HasSubstr("deadlock"), HasSubstr("recv #2"), HasSubstr("from rank 0")));
}

TEST(AsyncFailure, of_another_threads_stream_is_told_in_the_call) {
  const std::string message = failure_of<InvalidArgument>(2, [](const Communicator& world) {
    world.barrier();
    std::exception_ptr error;
    std::thread([&] {
      try {
        world.stream();
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    if (error) std::rethrow_exception(error);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("stream on rank "), HasSubstr("belongs to another thread")));
}

TEST(Threads, of_one_rank_use_groups_of_their_own_at_once) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Communicator side = world.split(0, world.rank())->for_thread();
    std::thread thread([side] {
      for (int i = 0; i < 300; ++i) {
        std::vector<int32_t> x{i};
        side.all_reduce(buffer(x));
        ASSERT_EQ(x[0], i * side.size());
      }
    });
    for (int i = 0; i < 300; ++i) {
      std::vector<int64_t> x{i};
      world.all_reduce(buffer(x), Reduction::max);
      ASSERT_EQ(x[0], i);
    }
    thread.join();
  });
}

TEST(Threads, that_use_anothers_communicator_are_told_how_to_get_one) {
  const std::string message = failure_of<InvalidArgument>(2, [](const Communicator& world) {
    world.barrier();
    std::exception_ptr error;
    std::thread([&] {
      try {
        world.barrier();
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    if (error) std::rethrow_exception(error);
  });
  EXPECT_THAT(message,
              AllOf(HasSubstr("barrier on rank "), HasSubstr("belongs to another thread"), HasSubstr("for_thread()")));
}

}  // namespace
}  // namespace adjoin
