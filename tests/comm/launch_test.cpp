// What ends a world: exceptions, aborts, returns, calls that differ.

#include "adjoin/comm/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/carried_state.hpp"
#include "adjoin/base/error.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/operations.hpp"
#include "tests/support/programs/forks.hpp"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::every_operation;
using testing::failure_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Launch, reports_the_rank_that_threw_whatever_the_others_wait_in) {
  for (const auto& operation : every_operation())
    for (const size_t elements : {12u, 12000u})
      for (int culprit = 0; culprit < 3; ++culprit) {
        const std::string message = failure_of<InvalidArgument>(3, [&](const Communicator& world) {
          std::vector<float> x(elements, 1.0f);
          for (int round = 0; round < 100000; ++round) {
            if (world.rank() == culprit && round == 3) throw InvalidArgument("expected three, got four");
            operation(world, x);
          }
        });
        EXPECT_EQ(message, "rank " + std::to_string(culprit) + ": expected three, got four");
      }
}

TEST(Launch, lets_no_rank_leave_while_peers_work_on_its_memory) {
  // An abort at any moment of a large all_reduce whose buffers die with their rank: the sanitizers watch.
  for (int round = 0; round < 60; ++round) {
    const std::string message = failure_of<InternalError>(4, [&](const Communicator& world) {
      const auto group = world.split(world.rank() == 3, 0);
      if (world.rank() == 3) {
        std::this_thread::sleep_for(std::chrono::microseconds(37 * round));
        throw InternalError("stop");
      }
      for (;;) {
        std::vector<double> x(20000, 1.0);
        group->all_reduce(buffer(x));
        ASSERT_EQ(x[19999], 3.0);
      }
    });
    EXPECT_EQ(message, "rank 3: stop");
  }
}

TEST(Launch, keeps_the_class_of_the_first_cause) {
  const auto throwing = [](auto error) {
    return [error](const Communicator& world) {
      if (world.rank() == 1) throw error;
      world.barrier();
    };
  };
  EXPECT_EQ(failure_of<InvalidArgument>(2, throwing(InvalidArgument("a"))), "rank 1: a");
  EXPECT_EQ(failure_of<CommunicationError>(2, throwing(CommunicationError("b"))), "rank 1: b");
  EXPECT_EQ(failure_of<InternalError>(2, throwing(InternalError("c"))), "rank 1: c");
  EXPECT_EQ(failure_of<IoError>(2, throwing(IoError("disk"))), "rank 1: disk");
  EXPECT_EQ(failure_of<Error>(2, throwing(std::runtime_error("d"))), "rank 1: d");
  EXPECT_EQ(failure_of<Error>(2, throwing(7)), "rank 1: an exception of an unknown type");
}

TEST(Launch, refuses_fewer_than_one_rank) {
  EXPECT_EQ(failure_of<InvalidArgument>(0, [](const Communicator&) {}), "launch: expected at least 1 rank, got 0");
}

TEST(Launch, says_who_returned_while_others_wait) {
  const std::string message = failure_of<CommunicationError>(3, [](const Communicator& world) {
    std::vector<float> x(4);
    if (world.rank() != 1) world.all_reduce(buffer(x));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("all_reduce #1 (sum, float32 x 4) at launch_test.cpp:"),
                             HasSubstr("waits for rank"), HasSubstr("\n  rank 1: has returned")));
}

TEST(Abort, ends_blocked_and_later_calls_in_every_group_with_its_reason) {
  std::atomic<int> told = 0, ready = 0;
  const std::string message = failure_of<CommunicationError>(4, [&](const Communicator& world) {
    const auto group = world.split(world.rank() / 2, 0);
    ++ready;
    if (world.rank() == 3) {
      while (ready < 4) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      world.abort("the user has had enough");
      return;
    }
    const auto expect_told = [&](const auto& call) {
      try {
        call();
      } catch (const CommunicationError& e) {
        EXPECT_THAT(e.what(), HasSubstr("the user has had enough"));
        ++told;
      }
    };
    std::vector<float> x(1);
    if (world.rank() == 0) expect_told([&] { world.recv(buffer(x), 3); });
    if (world.rank() == 1) expect_told([&] { world.barrier(); });
    if (world.rank() == 2) expect_told([&] { group->all_reduce(buffer(x)); });
    expect_told([&] { world.barrier(); });
  });
  EXPECT_EQ(told, 6);
  EXPECT_EQ(message, "the user has had enough");
}

TEST(Mismatch, is_raised_on_every_rank_with_both_calls_and_their_places) {
  std::atomic<int> told = 0;
  const std::string message = failure_of<CommunicationError>(4, [&](const Communicator& world) {
    std::vector<float> x(1024);
    world.barrier();
    try {
      if (world.rank() == 1)
        world.broadcast(buffer(x), 0);
      else
        world.all_reduce(buffer(x));
    } catch (const CommunicationError&) {
      ++told;
      throw;
    }
  });
  EXPECT_EQ(told, 4);
  EXPECT_THAT(message, AllOf(StartsWith("mismatched collectives:\n  rank"),
                             HasSubstr(": all_reduce #2 (sum, float32 x 1024) at launch_test.cpp:"),
                             HasSubstr("\n  rank 1: broadcast #2 (root 0, float32 x 1024) at launch_test.cpp:")));
}

TEST(Mismatch, is_told_before_all_have_come) {
  std::atomic<bool> was_told = false;
  const std::string message = failure_of<CommunicationError>(3, [&](const Communicator& world) {
    std::vector<float> x(8);
    if (world.rank() == 2) {
      for (int i = 0; i < 20000 && !was_told; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    try {
      world.all_reduce(buffer(x), world.rank() ? Reduction::min : Reduction::max);
    } catch (const CommunicationError&) {
      was_told = true;
      throw;
    }
  });
  EXPECT_TRUE(was_told);
  EXPECT_THAT(message,
              AllOf(StartsWith("mismatched collectives:\n  rank 0: all_reduce #1 (max"),
                    HasSubstr("\n  rank 1: all_reduce #1 (min"), EndsWith("\n  rank 2: has not made this call")));
}

TEST(Launch, tells_of_a_broadcast_that_others_never_come_to) {
  const auto broadcast = [](const Communicator& group) {
    std::vector<float> x(4);
    group.broadcast(buffer(x), 0);
  };
  EXPECT_THAT(
      failure_of<CommunicationError>(2,
                                     [&](const Communicator& world) {
                                       if (world.rank() == 0) broadcast(world);
                                     }),
      AllOf(StartsWith("deadlock"), HasSubstr("\n  rank 0: broadcast #1 (root 0, float32 x 4) at launch_test.cpp:"),
            EndsWith("\n  rank 1: has returned")));
  EXPECT_THAT(failure_of<CommunicationError>(2,
                                             [&](const Communicator& world) {
                                               const auto group = world.split(0, 0);
                                               if (world.rank() == 0) broadcast(*group);
                                               world.barrier();
                                             }),
              AllOf(StartsWith("deadlock"), HasSubstr("rank 0: broadcast #"), HasSubstr("rank 1: barrier #")));
}

TEST(Launch, finds_an_order_of_calls_that_works_only_where_a_root_need_not_wait) {
  for (const bool checked : {false, true}) {
    const auto in_another_order = [](const Communicator& world) {
      std::vector<float> x(2), y(2);
      if (world.rank() == 0) world.broadcast(buffer(x), 0);
      if (world.rank() == 0)
        world.recv(buffer(y), 1);
      else
        world.send(const_buffer(y), 0);
      if (world.rank() == 1) world.broadcast(buffer(x), 0);
    };
    EXPECT_THAT(failure_of<CommunicationError>(2, in_another_order, {.checked = checked}),
                AllOf(StartsWith("deadlock"), HasSubstr("broadcast #1"), HasSubstr("send")));
  }
}

TEST(Mismatch, counts_less_than_the_error_for_which_a_rank_let_go_of_a_group) {
  const std::string message = failure_of<IoError>(2, [](const Communicator& world) {
    auto group = world.split(0, 0);
    std::vector<float> x(4);
    if (world.rank() == 0) return group->broadcast(buffer(x), 0);
    try {
      throw IoError("disk full");
    } catch (const IoError&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // now the other has gone
      group.reset();
      throw;
    }
  });
  EXPECT_EQ(message, "rank 1: disk full");
}

TEST(Mismatch, is_told_in_a_group_that_was_let_go_of_while_a_caught_exception_unwound) {
  const std::string message = failure_of<CommunicationError>(2, [](const Communicator& world) {
    const auto group = world.split(0, 0);
    try {
      const Communicator other = *group;
      throw IoError("no matter");
    } catch (const IoError&) {
    }
    std::vector<float> x(4);
    group->broadcast(buffer(x), world.rank());
  });
  EXPECT_THAT(message, AllOf(StartsWith("mismatched collectives"), HasSubstr("root 0"), HasSubstr("root 1")));
}

TEST(Mismatch, names_a_group_whose_ranks_are_reversed) {
  const std::string message = failure_of<CommunicationError>(2, [](const Communicator& world) {
    const auto group = world.split(0, -world.rank());
    std::vector<float> x(4);
    group->broadcast(buffer(x), world.rank());
  });
  EXPECT_THAT(message, HasSubstr("on group {1, 0}"));
}

TEST(Launch, pairs_the_groups_that_several_threads_of_a_rank_make_in_turn) {
  for (int round = 0; round < 20; ++round)
    launch_threads(2, [](const Communicator& world) {
      const Communicator other = world.for_thread();
      const int both[] = {0, 1};
      const Communicator first = world.subset(both);
      std::jthread([&] {
        const Communicator second = other.subset(both);
        std::vector<int32_t> x = {1};
        second.all_reduce(buffer(x));
        EXPECT_EQ(x[0], 2);
      }).join();
      std::vector<int32_t> y = {2};
      first.all_reduce(buffer(y));
      EXPECT_EQ(y[0], 4);
    });
}

TEST(Launch, lets_several_threads_of_a_rank_use_one_group_in_turn) {
  launch_threads(3, [](const Communicator& world) {
    std::vector<int32_t> x = {1};
    world.all_reduce(buffer(x));
    const Communicator other = world.for_thread();
    std::jthread([&] {
      other.all_reduce(buffer(x));
      other.broadcast(buffer(x), 2);
    }).join();
    world.all_reduce(buffer(x));
    EXPECT_EQ(x[0], 27);
  });
}

TEST(Mismatch, is_found_in_roots_types_reductions_and_counts) {
  const std::vector<testing::OperationCall> different = {
      [](const Communicator& w, std::vector<float>& x) { w.broadcast(buffer(x), w.rank()); },
      [](const Communicator& w, std::vector<float>& x) {
        w.all_reduce({x.data(), 8, w.rank() ? ElementType::float32 : ElementType::int32});
      },
      [](const Communicator& w, std::vector<float>& x) {
        w.all_reduce(buffer(x), w.rank() ? Reduction::min : Reduction::max);
      },
      [](const Communicator& w, std::vector<float>& x) { w.all_reduce(buffer(x).slice(0, 3000 + w.rank())); },
      [](const Communicator& w, std::vector<float>& x) {
        const std::vector<int64_t> counts = w.rank() ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2, 1};
        w.all_gather(buffer(x).slice(0, counts[static_cast<size_t>(w.rank())]), buffer(x).slice(4, 3), counts);
      },
      [](const Communicator& w, std::vector<float>& x) {
        const std::vector<int64_t> sends(2, 2), receives(2, 2 + w.rank());
        w.all_to_all(buffer(x).slice(0, 4), sends, buffer(x).slice(10, 4 + 2 * w.rank()), receives);
      },
  };
  for (const auto& call : different) {
    const std::string message = failure_of<CommunicationError>(2, [&](const Communicator& world) {
      std::vector<float> x(4000);
      call(world, x);
    });
    EXPECT_THAT(message, AllOf(StartsWith("mismatched collectives:\n  rank 0: "), HasSubstr("\n  rank 1: ")));
  }
}

TEST(Deadline, may_be_as_long_as_a_number_can_say) {
  for (const auto deadline :
       {std::chrono::milliseconds::max(), std::chrono::milliseconds(std::chrono::hours(24 * 365 * 300))})
    launch_threads(2,
                   [](const Communicator& world) {
                     if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
                     EXPECT_NO_THROW(world.barrier());
                   },
                   {.deadline = deadline});
}

TEST(Deadline, ends_a_world_in_which_a_thread_outside_it_might_yet_act) {
  const std::string message = failure_of<CommunicationError>(2,
                                                             [](const Communicator& world) {
                                                               std::vector<float> x(4);
                                                               if (world.rank() == 0) return world.recv(buffer(x), 1);
                                                               std::this_thread::sleep_for(std::chrono::seconds(1));
                                                               world.barrier();
                                                             },
                                                             {.deadline = std::chrono::milliseconds(200)});
  EXPECT_THAT(message,
              AllOf(StartsWith("no progress within the deadline of 0.2 s\n  rank 0: recv #1 (from rank 1, tag 0, "
                               "float32 x 4) at launch_test.cpp:"),
                    HasSubstr("waits for rank 1\n  rank 1: computes")));
}

TEST(Waiting, for_long_leaves_the_core_to_others) {
  const auto cpu_seconds = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  launch_threads(2, [&](const Communicator& world) {
    if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const double before = cpu_seconds();
    world.barrier();
    EXPECT_LT(cpu_seconds() - before, 0.1);  // of the 0.3 s that rank 1 waits
  });
}

TEST(Launch, gives_the_ranks_the_state_of_the_thread_that_launches) {
  thread_local int mode = 0;
  carry_to_ranks([] { return std::function<void()>([now = mode] { mode = now; }); });
  mode = 7;
  launch_threads(3, [](const Communicator&) { EXPECT_EQ(mode, 7); });
  std::thread([give = carried_state()] {
    EXPECT_EQ(mode, 0);
    give();
    EXPECT_EQ(mode, 7);
  }).join();
  mode = 0;
}

#ifndef __SANITIZE_THREAD__  // which does not know forks of several threads
TEST(Launch, lets_a_child_of_a_rank_neither_communicate_nor_leave_the_function) {
  for (const char* kind : {"fork", "fork-calls", "fork-returns", "fork-throws"})
    launch_threads(3, [&](const Communicator& world) { testing::programs::run_fork(kind, world); });
}
#endif

}  // namespace
}  // namespace adjoin
