#include "adjoin/comm/turns.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/carried_state.hpp"
#include "adjoin/base/error.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using testing::failure_of;
using testing::for_each_world;
using ::testing::HasSubstr;

using Events = std::vector<std::string>;

/// Notes what each part computes and calls.
class PartsSeen final : public Observer {
 public:
  void begin(const Call& call) override { events.push_back(part() + "begins " + std::string(call.name)); }
  void begin_wait(const Call* begun) override { events.push_back(part() + "waits for " + std::string(begun->name)); }
  void compute() { events.push_back(part() + "computes"); }

  Events events;

 private:
  static std::string part() { return Turns::is_second() ? "second " : "first "; }
};

TEST(Turns, change_where_a_part_would_wait_for_the_group) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    if (world.backend()->spans_hosts()) return;  // a call that has ended is not waited for
    const auto seen = std::make_shared<PartsSeen>();
    const Communicator group = world.observed_by(seen);
    Turns turns(group);
    const auto part = [&] {
      std::vector<int32_t> x{1}, y{2};
      seen->compute();
      group.all_reduce(buffer(x));
      seen->compute();
      const auto sum = group.begin().all_reduce(buffer(y));
      seen->compute();
      sum->wait();
      EXPECT_EQ(x[0], world.size());
      EXPECT_EQ(y[0], 2 * world.size());
    };
    turns.run(part, part);
    EXPECT_EQ(seen->events, (Events{"first computes", "first begins all_reduce",                                   //
                                    "second computes", "second begins all_reduce",                                 //
                                    "first waits for all_reduce", "first computes", "first begins all_reduce",     //
                                    "first computes",                                                              //
                                    "second waits for all_reduce", "second computes", "second begins all_reduce",  //
                                    "second computes",                                                             //
                                    "first waits for all_reduce", "second waits for all_reduce"}));
  });
}

TEST(Turns, do_not_change_at_calls_of_other_groups) {
  for_each_world({3, 4}, [](const Communicator& world) {
    const Communicator pair = *world.split(world.rank() / 2, world.rank());
    std::vector<int> order;
    const auto part = [&](int number) {
      return [&, number] {
        std::vector<int32_t> x{world.rank()};
        pair.all_reduce(buffer(x), Reduction::max);
        order.push_back(number);
      };
    };
    Turns(world).run(part(0), part(1));
    EXPECT_EQ(order, (std::vector<int>{0, 1}));
  });
}

TEST(Turns, give_the_results_of_one_part_after_the_other) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const int n = world.size();
    std::vector<std::vector<float>> results(2);
    const auto part = [&](size_t number) {
      return [&, number] {
        for (int round = 0; round < 50; ++round) {
          std::vector<float> mine(17 + 1000 * number, static_cast<float>(round + world.rank())), all(n * mine.size());
          const std::vector<int64_t> counts(static_cast<size_t>(n), std::ssize(mine));
          world.all_gather(const_buffer(mine), buffer(all), counts);
          world.all_reduce(buffer(mine));
          results[number].push_back(all.back() + mine.front());
        }
      };
    };
    Turns(world).run(part(0), part(1));
    for (const auto& found : results)
      for (int round = 0; round < 50; ++round)
        EXPECT_EQ(found[static_cast<size_t>(round)], static_cast<float>(round + n - 1 + n * round + n * (n - 1) / 2));
    world.barrier();
  });
}

TEST(Turns, of_parts_of_different_lengths_end_with_the_longer_one) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto part = [&](int calls) {
      return [&, calls] {
        for (int call = 0; call < calls; ++call) world.barrier();
      };
    };
    for (const int shorter : {0, 1, 3}) {
      Turns(world).run(part(shorter), part(5));
      Turns(world).run(part(5), part(shorter));
    }
  });
}

TEST(Turns, end_with_the_error_of_the_part_that_fails) {
  const auto run = [](bool first_fails) {
    return [=](const Communicator& world) {
      const auto good = [&] {
        for (int call = 0; call < 5; ++call) world.barrier();
      };
      const auto bad = [&] {
        world.barrier();
        throw InvalidArgument("this part is wrong");
      };
      Turns turns(world);
      first_fails ? turns.run(bad, good) : turns.run(good, bad);
    };
  };
  for (const bool first_fails : {true, false})
    EXPECT_THAT(failure_of<InvalidArgument>(2, run(first_fails)), HasSubstr("this part is wrong"));
}

TEST(Turns, are_refused_within_turns) {
  EXPECT_THROW(
      {
        const Communicator alone;
        Turns(alone).run([&] { Turns(alone).run([] {}, [] {}); }, [] {});
      },
      InvalidArgument);
}

}  // namespace
}  // namespace adjoin
