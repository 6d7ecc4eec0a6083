#include "adjoin/comm/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::for_each_world;
using ::testing::HasSubstr;

std::string invalid_message(const std::function<void()>& call) {
  return testing::thrown_by<InvalidArgument>(call);
}

TEST(Communicator, of_one_worker_makes_every_collective_the_identity) {
  const Communicator alone;
  std::vector<float> x{1, 2, 3}, y(3);
  const std::vector<int64_t> counts{3};
  alone.barrier();
  alone.all_reduce(buffer(x));
  alone.broadcast(buffer(x), 0);
  alone.all_to_all(const_buffer(x), counts, buffer(y), counts);
  EXPECT_EQ(y, x);
  alone.reduce_scatter(const_buffer(x), buffer(y), counts);
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(alone.split(0, 0)->size(), 1);
}

TEST(Communicator, says_who_expected_what_and_what_came) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const std::string last = std::to_string(world.size() - 1);
    const std::string who = " on rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size()) + " at ";
    std::vector<float> x(4);
    std::vector<int64_t> counts(static_cast<size_t>(world.size()), 1), negative = counts, too_many = counts;
    negative[0] = -1;
    too_many.push_back(1);
    const std::vector<float> blocks(static_cast<size_t>(world.size()));

    EXPECT_THAT(invalid_message([&] { world.broadcast(buffer(x), world.size()); }),
                AllOf(HasSubstr("broadcast" + who), HasSubstr("communicator_test.cpp:"),
                      HasSubstr("expected a root from 0 to " + last + ", got " + std::to_string(world.size()))));
    EXPECT_THAT(invalid_message([&] { world.send(const_buffer(x), -1); }),
                AllOf(HasSubstr("send" + who), HasSubstr("expected a peer from 0 to " + last + ", got -1")));
    EXPECT_THAT(invalid_message([&] { world.recv(buffer(x), 0, -4); }), HasSubstr("expected a tag from 0 to"));
    EXPECT_THAT(invalid_message([&] {
                  world.all_reduce({x.data(), -2, ElementType::float32});
                }),
                HasSubstr("expected a count of 'buffer' that is not negative, got -2"));
    EXPECT_THAT(invalid_message([&] {
                  world.all_reduce({nullptr, 2, ElementType::float32});
                }),
                HasSubstr("expected memory for 2 elements of 'buffer', got a null pointer"));
    EXPECT_THAT(invalid_message([&] {
                  world.all_gather({x.data(), 1, ElementType::float32}, buffer(x), negative);
                }),
                HasSubstr("expected no negative number in 'counts', got -1"));
    EXPECT_THAT(invalid_message([&] {
                  world.all_gather({x.data(), 1, ElementType::float32}, buffer(x), too_many);
                }),
                HasSubstr("expected " + std::to_string(world.size()) + " numbers in 'counts', got " +
                          std::to_string(world.size() + 1)));
    EXPECT_THAT(invalid_message([&] { world.gather(const_buffer(x), buffer(x), counts, 0); }),
                HasSubstr("expected 1 elements of 'in', got 4"));
    EXPECT_THAT(invalid_message([&] { world.reduce_scatter(const_buffer(blocks), buffer(x), counts); }),
                HasSubstr("expected 1 elements of 'out', got 4"));
    std::vector<double> wide(1);
    EXPECT_THAT(invalid_message([&] { world.reduce_scatter(const_buffer(blocks), buffer(wide), counts); }),
                HasSubstr("expected one element type of 'in' and 'out', got float32 and float64"));
    if (world.rank() == 0) {
      EXPECT_THAT(invalid_message([&] {
                    world.scatter({}, {x.data(), 1, ElementType::float32}, counts, 0);
                  }),
                  HasSubstr("elements of 'in', got 0"));
      EXPECT_THAT(invalid_message([&] { world.reduce(const_buffer(x), {}, Reduction::sum, 0); }),
                  HasSubstr("expected 4 elements of 'out', got 0"));
    }
    const std::vector<int> twice{world.rank(), world.rank()}, without{};
    EXPECT_THAT(invalid_message([&] { world.subset(twice); }), HasSubstr("expected each member once"));
    EXPECT_THAT(invalid_message([&] { world.subset(without); }), HasSubstr("expected this rank among the members"));
  });
}

TEST(Split, groups_by_color_and_orders_by_key_and_then_rank) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const auto group = world.split(world.rank() % 2, -world.rank());
    ASSERT_TRUE(group.has_value());
    const int members = (world.size() + 1 - world.rank() % 2) / 2;
    EXPECT_EQ(group->size(), members);
    EXPECT_EQ(group->rank(), members - 1 - world.rank() / 2);

    const auto same_key = world.split(5, 0);
    EXPECT_EQ(same_key->rank(), world.rank());
    const auto some = world.split(world.rank() == 0 ? -1 : 0, 0);
    EXPECT_EQ(some.has_value(), world.rank() != 0);
  });
}

TEST(Subset, is_called_by_its_members_only_and_keeps_their_order) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const int last = world.size() - 1;
    const std::vector<int> ends = last == 0 ? std::vector<int>{0} : std::vector<int>{last, 0};
    if (world.rank() != 0 && world.rank() != last) return;
    for (int again = 0; again < 3; ++again) {
      const Communicator group = world.subset(ends);
      EXPECT_EQ(group.rank(), world.rank() == last ? 0 : 1);
      int32_t sum[] = {world.rank() + 1};
      group.all_reduce(buffer(sum));
      EXPECT_EQ(sum[0], last == 0 ? 1 : last + 2);
    }
  });
}

TEST(Groups, have_ids_of_their_own_which_are_not_the_worlds) {
  for_each_world({3}, [](const Communicator& world) {
    const std::vector<int> members{world.size() - 1, 0};
    if (std::ranges::find(members, world.rank()) == members.end()) return;
    std::vector<Communicator> groups{world.for_thread(), world.for_thread()};
    for (const Communicator& parent : {world, groups[0], groups[1]})
      for (int i = 0; i < 3; ++i) groups.push_back(parent.subset(members));
    groups.push_back(groups.back().for_thread());
    std::set<uint64_t> ids{world.identity().id};
    for (const Communicator& group : groups) EXPECT_TRUE(ids.insert(group.identity().id).second);
  });
}

TEST(Groups, live_side_by_side) {
  for_each_world({4}, [](const Communicator& world) {
    const auto rows = world.split(world.rank() / 2, world.rank());
    const auto columns = world.split(world.rank() % 2, world.rank());
    for (int64_t i = 0; i < 50; ++i) {
      int64_t row[] = {world.rank() + i}, column[] = {world.rank() + i}, all[] = {world.rank() + i};
      const auto expected = [&](const auto& contains) {
        int64_t sum = 0;
        for (int r = 0; r < world.size(); ++r) sum += contains(r) ? r + i : 0;
        return sum;
      };
      rows->all_reduce(buffer(row));
      world.all_reduce(buffer(all));
      columns->all_reduce(buffer(column));
      EXPECT_EQ(row[0], expected([&](int r) { return r / 2 == world.rank() / 2; }));
      EXPECT_EQ(column[0], expected([&](int r) { return r % 2 == world.rank() % 2; }));
      EXPECT_EQ(all[0], expected([](int) { return true; }));
    }
  });
}

class CallRecorder : public Observer {
 public:
  void begin(const Call& call) override {
    begun.push_back(std::string(call.name) + " x " + std::to_string(call.elements().count));
    sequences.push_back(call.sequence);
  }
  void end(const Call& call) override { bytes += call.bytes(); }

  std::vector<std::string> begun;
  std::vector<uint64_t> sequences;
  int64_t bytes = 0;
};

TEST(Observer, sees_every_operation_of_the_group_and_of_groups_made_from_it) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const auto recorder = std::make_shared<CallRecorder>();
    const Communicator observed = world.observed_by(recorder);
    std::vector<double> x(3);
    observed.all_reduce(buffer(x));
    observed.broadcast(buffer(x), 0);
    observed.split(0, 0)->barrier();
    EXPECT_THAT(recorder->begun, ElementsAre("all_reduce x 3", "broadcast x 3", "all_gather x 2", "barrier x 0"));
    EXPECT_EQ(recorder->sequences[1], recorder->sequences[0] + 1);
    EXPECT_EQ(recorder->bytes, 3 * 8 + 3 * 8 + 2 * 4);
  });
}

TEST(Communicator, refuses_reductions_that_the_type_does_not_have) {
  for_each_world({1, 2}, [](const Communicator& world) {
    std::vector<int32_t> whole(static_cast<size_t>(world.size())), block(1);
    std::vector<float> real(1);
    const std::vector<int64_t> counts(whole.size(), 1);
    EXPECT_THAT(invalid_message([&] { world.all_reduce(buffer(whole), Reduction::average); }),
                HasSubstr("expected floating-point elements for average, got int32"));
    EXPECT_THAT(invalid_message([&] { world.all_reduce(buffer(real), Reduction::logical_xor); }),
                HasSubstr("expected integer or bool elements for logical_xor, got float32"));
    EXPECT_THAT(invalid_message([&] { world.reduce(buffer(real), buffer(real), Reduction::bit_or, 0); }),
                HasSubstr("bit_or"));
    EXPECT_THAT(
        invalid_message([&] { world.reduce_scatter(buffer(whole), buffer(block), counts, Reduction::average); }),
        HasSubstr("average"));
  });
}

}  // namespace
}  // namespace adjoin
