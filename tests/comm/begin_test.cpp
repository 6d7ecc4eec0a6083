// Calls that are begun and waited for later.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/every_operation.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using ::testing::AllOf;
using testing::failure_of;
using testing::for_each_world;
using ::testing::HasSubstr;

using Counts = std::vector<int64_t>;
using Pendings = std::vector<std::unique_ptr<Pending>>;

/// Whether each rank is on another host, as far as this library knows.
bool is_one_a_host() {
  const char* ranks = std::getenv("ADJOIN_TEST_RANKS_OF_A_HOST");
  return started_by_mpi() && ranks && std::string(ranks) == "1";
}

TEST(Begun, is_every_operation) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const size_t each : {0u, 3u, 3000u, 50000u}) expect_every_operation(world, world.begin(), each, [] {});
  });
}

TEST(Begun, follows_a_call_that_cannot_go_on_before_its_rank_waits) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const Counts ones(static_cast<size_t>(world.size()), 1);
    std::vector<float> x(70000, 1), y(3, 1), all(ones.size());
    const std::vector<float> mine{static_cast<float>(world.rank())};
    const auto first = world.begin().all_reduce(buffer(x));
    const auto in_rank_order = world.deterministic().begin().all_reduce(buffer(y));
    if (world.rank() == 0)
      first->wait();
    else
      in_rank_order->wait();
    const auto last = world.begin().all_gather(const_buffer(mine), buffer(all), ones);
    in_rank_order->wait();
    last->wait();
    first->wait();
    for (size_t rank = 0; rank < all.size(); ++rank) EXPECT_EQ(all[rank], static_cast<float>(rank));
    EXPECT_EQ(y, std::vector<float>(3, static_cast<float>(world.size())));
    EXPECT_EQ(x[69999], static_cast<float>(world.size()));
  });
}

TEST(Begun, happens_in_the_order_of_the_group_whoever_waits_first) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (int round = 0; round < 60; ++round) {
      std::vector<int32_t> x{1}, y{world.rank()};
      const auto sum = world.begin().all_reduce(buffer(x));
      if ((round + world.rank()) % 2 == 0) sum->wait();
      world.broadcast(buffer(y), 0);  // which ends the sum first
      EXPECT_EQ(y[0], 0);
      sum->wait();
      EXPECT_EQ(x[0], world.size());
    }
    std::vector<std::vector<int32_t>> xs(5);
    for (int round = 0; round < 20; ++round) {
      Pendings begun;
      for (size_t i = 0; i < xs.size(); ++i) {
        xs[i].assign(1 + 100 * i, static_cast<int32_t>(i));
        begun.push_back(world.begin().all_reduce(buffer(xs[i])));
      }
      for (size_t i = 0; i < xs.size(); ++i)
        begun[(i * 2 + static_cast<size_t>(world.rank() + round)) % xs.size()]->wait();
      for (size_t i = 0; i < xs.size(); ++i)
        EXPECT_EQ(xs[i], std::vector<int32_t>(1 + 100 * i, static_cast<int32_t>(i) * world.size()));
    }
  });
}

TEST(Begun, meets_the_blocking_calls_of_other_ranks) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const int n = world.size();
    for (const int64_t count : {0, 10, 30000}) {
      const Counts counts(static_cast<size_t>(n), count);
      std::vector<float> x(static_cast<size_t>(count * n), 1), all(x.size()), own(static_cast<size_t>(count), 1),
          sum = own;
      const auto calls = [&](const auto& group, const auto& keep) {
        keep([&] { return group.all_reduce(buffer(x)); });
        keep([&] { return group.all_gather(const_buffer(own), buffer(all), counts); });
        keep([&] { return group.reduce(buffer(sum), buffer(sum), Reduction::sum, 1); });
        keep([&] { return group.barrier(); });
      };
      Pendings begun;
      if (world.rank() == 1)
        calls(world, [](const auto& call) { call(); });
      else
        calls(world.begin(), [&](const auto& call) { begun.push_back(call()); });
      for (const auto& call : begun) call->wait();
      EXPECT_EQ(all, std::vector<float>(all.size(), 1));
      EXPECT_EQ(x, std::vector<float>(x.size(), static_cast<float>(n)));
      EXPECT_EQ(sum, std::vector<float>(own.size(), static_cast<float>(world.rank() == 1 ? n : 1)));
    }
  });
}

TEST(Begun, is_on_several_groups_at_once_in_any_order) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Communicator one = *world.split(0, 0), two = *world.split(0, 0);
    for (int round = 0; round < 20; ++round) {
      std::vector<float> x(3000, 1), y(7, 2), z(70000, 3);
      Pendings begun(3);
      const auto of_two = [&] { begun[1] = two.begin().all_reduce(buffer(y)); };
      if (world.rank() % 2 == 0) of_two();
      begun[0] = one.begin().all_reduce(buffer(x));
      begun[2] = one.begin().all_reduce(buffer(z));
      if (world.rank() % 2 == 1) of_two();
      world.barrier();  // another group's, which ends nothing
      for (const auto& call : begun) call->wait();
      EXPECT_EQ(x.back(), 1.f * static_cast<float>(world.size()));
      EXPECT_EQ(y.back(), 2.f * static_cast<float>(world.size()));
      EXPECT_EQ(z.back(), 3.f * static_cast<float>(world.size()));
    }
  });
}

TEST(Begun, sends_hold_up_no_other_call_and_wait_for_those_before_them) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
    std::vector<int32_t> sent(100000, world.rank()), got(100000), x{1};
    const auto sending = world.begin().send(const_buffer(sent), next);
    world.all_reduce(buffer(x));
    world.recv(buffer(got), before);
    sending->wait();
    EXPECT_EQ(got.back(), before);
    const auto sum = world.begin().all_reduce(buffer(x));
    const auto again = world.isend(const_buffer(sent), next);
    if (world.rank() == 0) again->wait();  // which is received after the sum
    sum->wait();
    got.back() = -1;
    world.recv(buffer(got), before);
    EXPECT_EQ(got.back(), before);
    EXPECT_EQ(x[0], world.size() * world.size());
  });
}

TEST(Begun, has_ended_before_its_pending_is_gone_and_before_a_group_is_made) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    std::vector<float> x(70000, 2);
    { const auto sum = world.begin().all_reduce(buffer(x)); }
    EXPECT_EQ(x[1], 2.f * static_cast<float>(world.size()));
    const auto sum = world.begin().all_reduce(buffer(x));
    if (world.rank() % 2 == 1) sum->wait();
    const Communicator other = world.subset(all_ranks(world.size()));
    EXPECT_TRUE(sum->done());
    EXPECT_EQ(x[1], 2.f * static_cast<float>(world.size() * world.size()));
  });
}

/// The bytes that a call gives, made blocking and begun.
void expect_same_bits(const Communicator& group, ElementType type, int64_t count, Reduction reduction) {
  std::mt19937 random(static_cast<uint32_t>(17 * group.rank() + count));
  const auto each = static_cast<size_t>(count * size_of(type));
  const auto all = each * static_cast<size_t>(group.size());
  std::vector<char> given(all);
  for (size_t i = 0; i < all; i += 2)
    given[i] = static_cast<char>(random()), given[i + 1] = static_cast<char>(60 + random() % 4);
  const Counts counts(static_cast<size_t>(group.size()), count);
  const auto calls = [&](std::vector<char>& x, std::vector<char>& out, auto&& of) {
    const Buffer whole{x.data(), count * group.size(), type}, result{out.data(), count, type};
    of.all_reduce(whole, reduction);
    of.reduce_scatter(whole, result, counts, reduction);
    of.reduce(result, result, reduction, group.size() - 1);
    of.broadcast(result, 0);
  };
  struct Waiting : Operations<Waiting, void> {
    explicit Waiting(const Communicator& of) : begin(of.begin()) {}
    void carry_out(Call&& call) const { begin.carry_out(std::move(call))->wait(); }
    Begin begin;
  };
  std::vector<char> x = given, y = given, out(each), other(each);
  calls(x, out, group);
  calls(y, other, Waiting(group));
  EXPECT_EQ(x, y) << name(type) << " x " << count;
  EXPECT_EQ(out, other) << name(type) << " x " << count;
}

TEST(Begun, gives_the_bits_of_the_blocking_call) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const int64_t count : {1, 7, 600, 30000, 100001})
      for (const Reduction reduction : {Reduction::sum, Reduction::average, Reduction::product})
        expect_same_bits(world, ElementType::float32, count, reduction);
    expect_same_bits(world, ElementType::bfloat16, 5000, Reduction::sum);
    expect_same_bits(world.deterministic(), ElementType::float32, 5000, Reduction::sum);
    for (const std::string_view algorithm : algorithm::names_of(Collective::all_reduce))
      expect_same_bits(world.with_algorithm(Collective::all_reduce, algorithm), ElementType::float32, 301,
                       Reduction::sum);
    expect_same_bits(world.with_algorithm(Collective::reduce, "naive"), ElementType::float32, 301, Reduction::sum);
  });
}

TEST(Begun, ends_by_itself_between_hosts_and_in_the_wait_on_one) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    std::vector<float> x(100000, 1), y(5, 1), z(100000, 1);
    const auto first = world.begin().all_reduce(buffer(x)), second = world.begin().all_reduce(buffer(y)),
               third = world.begin().all_reduce(buffer(z));
    if (is_one_a_host()) {  // nobody calls anything meanwhile
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!third->done() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
      EXPECT_TRUE(first->done() && second->done());
    } else {
      EXPECT_FALSE(first->done() || second->done() || third->done());
    }
    EXPECT_EQ(third->done(), is_one_a_host());
    second->wait();
    EXPECT_TRUE(first->done());
    third->wait();
    EXPECT_EQ(x[7] + y[1] + z[99999], 3.f * static_cast<float>(world.size()));
  });
}

/// Notes what it sees.
class Notes final : public Observer {
 public:
  void begin(const Call& call) override { seen.append("(").append(call.name); }
  void end(const Call&) override { seen += ")"; }
  void begin_wait(const Call* begun) override { seen.append(" wait(").append(begun->name); }
  void end_wait(const Call*) override { seen += ")"; }
  std::string seen;
};

TEST(Begun, is_seen_when_it_begins_and_when_its_rank_waits) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const auto notes = std::make_shared<Notes>();
    const Communicator group = world.observed_by(notes);
    const auto first = group.begin().barrier();
    const auto second = group.begin().broadcast({}, 0);
    if (is_one_a_host()) return;  // where they may have ended before
    second->wait();
    first->wait();
    EXPECT_EQ(notes->seen, "(barrier)(broadcast) wait(broadcast)");
  });
}

TEST(BegunFailure, is_told_of_in_the_call_where_its_arguments_are_wrong) {
  for_each_world({1, 2}, [](const Communicator& world) {
    std::vector<float> x(4);
    EXPECT_THROW((void)world.begin().broadcast(buffer(x), world.size()), InvalidArgument);
    EXPECT_THROW((void)world.begin().recv(buffer(x), 0, -1), InvalidArgument);
  });
}

TEST(BegunFailure, of_calls_that_do_not_match_names_them) {
  const std::string message = failure_of<CommunicationError>(3, [](const Communicator& world) {
    std::vector<float> x(4);
    const auto call = world.rank() == 1 ? world.begin().broadcast(buffer(x), 0) : world.begin().all_reduce(buffer(x));
    call->wait();
  });
  EXPECT_THAT(message, AllOf(HasSubstr("mismatched collectives"),
                             HasSubstr("all_reduce #1 (sum, float32 x 4) at begin_test.cpp:"),
                             HasSubstr("rank 1: broadcast #1 (root 0, float32 x 4) at begin_test.cpp:")));
}

TEST(BegunFailure, of_calls_that_wait_for_each_other_is_a_deadlock) {
  const std::string of_groups = failure_of<CommunicationError>(2, [](const Communicator& world) {
    const Communicator one = *world.split(0, 0), two = *world.split(0, 0);
    const auto first = one.begin().barrier(), second = two.begin().barrier();
    (world.rank() == 0 ? first : second)->wait();
  });
  EXPECT_THAT(of_groups,
              AllOf(HasSubstr("deadlock"), HasSubstr("barrier #1"), HasSubstr("rank 0"), HasSubstr("rank 1")));
  const std::string of_one = failure_of<CommunicationError>(2, [](const Communicator& world) {
    std::vector<float> x(4);
    const Communicator other = *world.split(0, 0);
    const auto sum = world.begin().all_reduce(buffer(x));  // for which rank 0 does not wait
    if (world.rank() == 0) other.recv(buffer(x), 1);
    sum->wait();
  });
  EXPECT_THAT(of_one, AllOf(HasSubstr("deadlock"), HasSubstr("rank 0: recv #"), HasSubstr("rank 1: all_reduce #")));
}

TEST(BegunFailure, by_an_exception_ends_the_world_with_it) {
  for (int round = 0; round < 20; ++round) {
    const std::string message = failure_of<InvalidArgument>(3, [&](const Communicator& world) {
      std::vector<double> x(20000), y(20000);
      const auto first = world.begin().all_reduce(buffer(x));
      const auto second = round % 2 == 0 ? world.begin().all_reduce(buffer(y))
                                         : world.isend(const_buffer(y), (world.rank() + 1) % world.size());
      if (world.rank() == 1) throw InvalidArgument("expected fuel, got water");
      first->wait();
      for (;;) world.all_reduce(buffer(x));
    });
    EXPECT_EQ(message, "rank 1: expected fuel, got water");
  }
}

TEST(BegunFailure, is_told_where_a_rank_leaves_without_waiting) {
  Pendings left;
  const std::string message = failure_of<InvalidArgument>(2, [&](const Communicator& world) {
    static std::vector<float> x(4);
    if (world.rank() == 1) return world.barrier();
    left.push_back(world.subset(all_ranks(2)).begin().all_reduce(buffer(x)));
  });
  EXPECT_THAT(message,
              HasSubstr("rank 0: expected this rank to wait for what it has begun: all_reduce #1 (sum, float32 x 4) at "
                        "begin_test.cpp:"));
}

TEST(BegunFailure, is_told_where_another_thread_waits) {
  const std::string message = failure_of<InvalidArgument>(2, [](const Communicator& world) {
    std::vector<float> x(4);
    const auto sum = world.begin().all_reduce(buffer(x));
    std::exception_ptr error;
    std::thread([&] {
      try {
        sum->wait();
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    sum->wait();
    world.barrier();
    if (error) std::rethrow_exception(error);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("wait for all_reduce on rank "), HasSubstr("begin_test.cpp:"),
                             HasSubstr("belongs to another thread")));
}

}  // namespace
}  // namespace adjoin
