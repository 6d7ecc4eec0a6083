// Random sequences of calls, some begun and some blocking, on several groups.

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "adjoin/comm/launch.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using testing::for_each_world;

using Counts = std::vector<int64_t>;

/// One rank's part of a random sequence of calls, which it checks. All ranks draw the same sequence.
class RandomCalls {
 public:
  RandomCalls(const Communicator& world, uint32_t seed) : world_(world), random_(seed), groups_{world} {
    const auto half = world.split(world.rank() % 2, 0), rest = world.split(world.rank() == 0 ? -1 : 0, 0);
    groups_.push_back(*half);
    groups_.push_back(rest.value_or(Communicator()));
    begun_.resize(groups_.size());
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) {
      const size_t group = draw(groups_.size());
      const size_t kind = draw(6), count = draw(8) == 0 ? 40000 : draw(30);
      if (draw(3) > 0)
        begin(group, kind, count);
      else
        make(group, kind, count);
      if (draw(4) == 0) wait(draw(groups_.size()));
    }
    for (size_t group = 0; group < groups_.size(); ++group) wait(group);
  }

 private:
  struct Item {
    std::vector<float> in, out, expected;
    std::unique_ptr<Pending> call;
  };

  size_t draw(size_t below) { return random_() % below; }
  static float given(int world_rank, size_t i, size_t number) {
    return static_cast<float>((static_cast<size_t>(world_rank) * 31 + i * 7 + number * 3) % 1000);
  }

  /// Fills in what a call needs and what it should give.
  template <class Group>
  auto carry_out(const Group& on, const Communicator& group, Item& item, size_t kind, size_t count) {
    const auto ranks = group.world_ranks();
    const auto size = ranks.size(), self = static_cast<size_t>(group.rank());
    const auto value = [&](size_t rank, size_t i) { return given(ranks[rank], i, number_); };
    const auto sum = [&](size_t i) {
      float all = 0;
      for (size_t rank = 0; rank < size; ++rank) all += value(rank, i);
      return all;
    };
    const auto filled = [&](std::vector<float>& x, size_t n, const auto& of) {
      for (size_t i = 0; i < n; ++i) x.push_back(of(i));
    };
    const size_t root = number_ % size, before = (self + size - 1) % size;
    const auto as_int = [](size_t i) { return static_cast<int>(i); };
    const Counts counts(size, static_cast<int64_t>(count));
    filled(item.in, count * size, [&](size_t i) { return value(self, i); });
    item.out = item.in;
    item.out.resize(count * size);
    const Buffer in = buffer(item.in), out = buffer(item.out), own = in.slice(0, static_cast<int64_t>(count));
    switch (kind) {
      case 0:
        filled(item.expected, count * size, sum);
        return on.all_reduce(out);
      case 1:
        filled(item.expected, count * size, [&](size_t i) { return value(root, i); });
        return on.broadcast(out, as_int(root));
      case 2:
        for (size_t rank = 0; rank < size; ++rank)
          filled(item.expected, count, [&](size_t i) { return value(rank, i); });
        return on.all_gather(own, out, counts);
      case 3:
        item.out.resize(count);
        filled(item.expected, count, [&](size_t i) { return sum(self * count + i); });
        return on.reduce_scatter(in, buffer(item.out), counts);
      case 4:
        filled(item.expected, count * size, [&](size_t i) { return value(before, i); });
        return on.sendrecv(in, as_int((self + 1) % size), out, as_int(before), 4);
      default:
        for (size_t rank = 0; rank < size; ++rank)
          filled(item.expected, count, [&](size_t i) { return value(rank, self * count + i); });
        return on.all_to_all(in, counts, out, counts);
    }
  }
  void begin(size_t group, size_t kind, size_t count) {
    ++number_;
    Item& item = begun_[group].emplace_back();
    item.call = carry_out(groups_[group].begin(), groups_[group], item, kind, count);
    if (draw(2) == 0) return;
    if (random_() % static_cast<size_t>(world_.size()) == static_cast<size_t>(world_.rank())) item.call->wait();
    make(group, kind, 3);  // where the others end it
  }
  void make(size_t group, size_t kind, size_t count) {
    ++number_;
    Item item;
    carry_out(groups_[group], groups_[group], item, kind, count);
    EXPECT_EQ(item.out, item.expected) << kind;
  }
  /// Each rank in an order of its own.
  void wait(size_t group) {
    auto& items = begun_[group];
    for (size_t i = 0; i < items.size(); ++i) {
      Item& item = items[(i + static_cast<size_t>(world_.rank())) % items.size()];
      item.call->wait();
      EXPECT_EQ(item.out, item.expected);
    }
    items.clear();
  }

  const Communicator world_;
  std::mt19937 random_;
  std::vector<Communicator> groups_;
  std::vector<std::deque<Item>> begun_;  // of each group
  size_t number_ = 0;                    // of the call
};

TEST(Begun, is_right_in_random_sequences_on_several_groups) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const uint32_t seeds = testing::kIsSanitized || started_by_mpi() ? 5 : 15;
    for (uint32_t seed = 0; seed < seeds; ++seed) RandomCalls(world, seed).run(60);
  });
}

}  // namespace
}  // namespace adjoin
