// What ends a world: exceptions, aborts, returns, calls that differ.

#include "adjoin/comm/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The message of the exception of class Expected that the launch throws.
template <class Expected>
std::string failure_of(int ranks, const std::function<void(const Communicator&)>& fn) {
  try {
    launch_threads(ranks, fn);
  } catch (const Expected& e) {
    return e.what();
  }
  return "nothing was thrown";
}

using Operation = std::function<void(const Communicator&, std::vector<float>&)>;

/// One call of each operation, of small and of larger messages; x has 4 * size elements or many more.
std::vector<Operation> every_operation() {
  const auto even = [](const Communicator& w, const std::vector<float>& x) {
    return std::vector<int64_t>(static_cast<size_t>(w.size()), static_cast<int64_t>(x.size()) / w.size());
  };
  const auto own = [](const Communicator& w, std::vector<float>& x) {
    const auto n = static_cast<int64_t>(x.size()) / w.size();
    return buffer(x).slice(n * w.rank(), n);
  };
  return {
      [](const Communicator& w, std::vector<float>&) { w.barrier(); },
      [](const Communicator& w, std::vector<float>& x) { w.broadcast(buffer(x), w.size() - 1); },
      [](const Communicator& w, std::vector<float>& x) { w.reduce(const_buffer(x), buffer(x), Reduction::sum, 0); },
      [](const Communicator& w, std::vector<float>& x) { w.all_reduce(buffer(x), Reduction::max); },
      [=](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.gather(own(w, x), buffer(out), even(w, x), 0);
      },
      [=](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.scatter(buffer(x), own(w, out), even(w, x), 0);
      },
      [=](const Communicator& w, std::vector<float>& x) { w.all_gather(own(w, x), buffer(x), even(w, x)); },
      [=](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.reduce_scatter(buffer(x), own(w, out), even(w, x));
      },
      [=](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.all_to_all(buffer(x), even(w, x), buffer(out), even(w, x));
      },
      [](const Communicator& w, std::vector<float>& x) {
        std::vector<float> out(x.size());
        w.sendrecv(buffer(x), (w.rank() + 1) % w.size(), buffer(out), (w.rank() + w.size() - 1) % w.size());
      },
  };
}

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
                             HasSubstr("waits for rank 1"), HasSubstr("\n  rank 1: has returned")));
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
  EXPECT_THAT(message,
              AllOf(StartsWith("mismatched collectives:\n  ranks 0, 2, 3: all_reduce #2 (sum, float32 x 1024) at "
                               "launch_test.cpp:"),
                    HasSubstr("\n  rank 1: broadcast #2 (root 0, float32 x 1024) at launch_test.cpp:")));
}

TEST(Mismatch, is_found_in_roots_types_reductions_and_counts) {
  const std::vector<Operation> different = {
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

/// What a command wrote to both outputs, and its exit code.
std::pair<std::string, int> output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> chunk;
  while (const size_t n = fread(chunk.data(), 1, chunk.size(), pipe)) text.append(chunk.data(), n);
  return {text, WEXITSTATUS(pclose(pipe))};
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// Runs tests/support/fault_program under mpirun, out of reach of an mpirun that this test may run under.
std::pair<std::string, int> output_of_job(const std::string& arguments) {
  return output_of(
      "env $(env | grep -oE '^(OMPI|PMIX|PRTE)_[A-Za-z0-9_]*' | sed 's/^/-u /') OMPI_ALLOW_RUN_AS_ROOT=1 "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 timeout 60 mpirun -n 3 "
      "--oversubscribe " ADJOIN_FAULT_PROGRAM " " +
      arguments);
}

TEST(MpiLaunch, prints_the_first_cause_once_and_exits_with_its_code) {
  if (started_by_mpi() && mpi_job_rank() != 0) return;
  for (int culprit = 0; culprit < 3; ++culprit) {
    const auto [text, code] = output_of_job(std::to_string(culprit) + " invalid");
    EXPECT_EQ(occurrences(text, "expected an even number, got 7"), 1u) << text;
    EXPECT_THAT(text, HasSubstr("rank " + std::to_string(culprit) + ": expected an even number"));
    EXPECT_EQ(code, 2);
  }
  const auto [text, code] = output_of_job("1 other");
  EXPECT_THAT(text, HasSubstr("rank 1: the disk is full"));
  EXPECT_EQ(code, 1);
}

TEST(MpiLaunch, cuts_messages_that_mpi_could_not_count) {
  if (started_by_mpi() && mpi_job_rank() != 0) return;
  const auto [text, code] = output_of_job("0 pieces");
  EXPECT_EQ(code, 0) << text;
}

TEST(MpiLaunch, prints_once_what_every_rank_throws) {
  if (started_by_mpi() && mpi_job_rank() != 0) return;
  const auto [text, code] = output_of_job("0 everybody");
  EXPECT_EQ(occurrences(text, "expected an even number, got 7"), 1u) << text;
  EXPECT_EQ(code, 2);
}

}  // namespace
}  // namespace adjoin
