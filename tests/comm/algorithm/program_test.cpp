// The algorithms as data: all ranks' programs run side by side in one thread, without a backend.

#include "adjoin/comm/algorithm/program.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "adjoin/comm/algorithm/all_gather.hpp"
#include "adjoin/comm/algorithm/all_reduce.hpp"
#include "adjoin/comm/algorithm/all_to_all.hpp"
#include "adjoin/comm/algorithm/barrier.hpp"
#include "adjoin/comm/algorithm/broadcast.hpp"
#include "adjoin/comm/algorithm/gather.hpp"
#include "adjoin/comm/algorithm/reduce.hpp"
#include "adjoin/comm/algorithm/reduce_scatter.hpp"
#include "adjoin/comm/algorithm/scatter.hpp"

namespace adjoin::algorithm {
namespace {

using Values = std::vector<int64_t>;
using Counts = std::vector<int64_t>;

struct Rank {
  Program program;
  Values regions[3];
  size_t step = 0;

  int64_t* at(const Slice& slice) {
    Values& region = regions[static_cast<int>(slice.region)];
    EXPECT_LE(slice.begin + slice.count, static_cast<int64_t>(region.size()));
    return region.data() + slice.begin;
  }
  bool is_over() const { return step == program.steps.size(); }
};

/// Runs programs with synchronous messages; a step is complete when all its transfers have met their other half.
class Machine {
 public:
  explicit Machine(std::vector<Rank> ranks) : ranks_(std::move(ranks)) {
    for (Rank& rank : ranks_) rank.regions[static_cast<int>(Region::scratch)].resize(rank.program.scratch);
    for (Rank& rank : ranks_)
      for (const LocalMove& move : rank.program.before) apply(rank, move);
    for (size_t r = 0; r < ranks_.size(); ++r) post(static_cast<int>(r));
  }

  /// Expects that every send meets a receive of the same length and that all ranks come to their end.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r)
        while (!ranks_[r].is_over() && pending_[static_cast<int>(r)] == 0) {
          for (const LocalMove& move : ranks_[r].program.steps[ranks_[r].step].moves) apply(ranks_[r], move);
          ++ranks_[r].step;
          post(static_cast<int>(r));
          moved = true;
        }
    }
    for (const Rank& rank : ranks_) EXPECT_TRUE(rank.is_over()) << "the ranks wait for each other";
    for (const auto& [pair, waiting] : sends_) EXPECT_TRUE(waiting.empty()) << "a send without a receive";
    for (const auto& [pair, waiting] : receives_) EXPECT_TRUE(waiting.empty()) << "a receive without a send";
  }

  const Values& output(int rank) const {
    return ranks_[static_cast<size_t>(rank)].regions[static_cast<int>(Region::output)];
  }

 private:
  void post(int r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    if (rank.is_over()) return;
    for (const Transfer& t : rank.program.steps[rank.step].transfers) {
      ++pending_[r];
      const bool is_send = t.kind == Transfer::Kind::send;
      const auto pair = is_send ? std::pair(r, t.peer) : std::pair(t.peer, r);
      (is_send ? sends_ : receives_)[pair].push_back(t);
      if (!sends_[pair].empty() && !receives_[pair].empty()) meet(pair);
    }
  }

  void meet(std::pair<int, int> pair) {
    const Transfer send = sends_[pair].front(), receive = receives_[pair].front();
    sends_[pair].pop_front();
    receives_[pair].pop_front();
    EXPECT_EQ(send.slice.count, receive.slice.count);
    const int64_t* from = ranks_[static_cast<size_t>(pair.first)].at(send.slice);
    int64_t* to = ranks_[static_cast<size_t>(pair.second)].at(receive.slice);
    const bool reduces = receive.kind == Transfer::Kind::receive_and_reduce;
    for (int64_t i = 0; i < send.slice.count; ++i) to[i] = reduces ? to[i] + from[i] : from[i];
    --pending_[pair.first];
    --pending_[pair.second];
  }

  static void apply(Rank& rank, const LocalMove& move) {
    EXPECT_EQ(move.from.count, move.to.count);
    const int64_t* from = rank.at(move.from);
    int64_t* to = rank.at(move.to);
    for (int64_t i = 0; i < move.to.count; ++i)
      to[i] = move.kind == LocalMove::Kind::reduce ? to[i] + from[i] : from[i];
  }

  std::vector<Rank> ranks_;
  std::map<int, int> pending_;
  std::map<std::pair<int, int>, std::deque<Transfer>> sends_, receives_;
};

int64_t given(int rank, int64_t i) {
  return 1000 * rank + i;
}

Values values_of(int rank, int64_t count) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(given(rank, i));
  return values;
}

Values sums_of(int size, int64_t count) {
  Values values(static_cast<size_t>(count));
  for (int r = 0; r < size; ++r)
    for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] += given(r, i);
  return values;
}

Counts uneven_counts(int size) {
  Counts counts;
  for (int r = 0; r < size; ++r) counts.push_back(r % 4 == 2 ? 0 : r + 1);
  return counts;
}

int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

Values block(const Values& all, const Counts& counts, int rank) {
  const auto first = all.begin() + starts_of(counts)[static_cast<size_t>(rank)];
  return {first, first + counts[static_cast<size_t>(rank)]};
}

Values blocks_of_all(const Counts& counts) {
  Values values;
  for (size_t r = 0; r < counts.size(); ++r)
    for (const int64_t v : values_of(static_cast<int>(r), counts[r])) values.push_back(v);
  return values;
}

Machine run_all(int size, const std::function<Rank(int)>& rank_of) {
  std::vector<Rank> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(rank_of(r));
  Machine machine(std::move(ranks));
  machine.run();
  return machine;
}

void for_sizes_and_roots(const std::function<void(int size, int root)>& check) {
  for (int size = 1; size <= 17; ++size)
    for (int root = 0; root < size; ++root) check(size, root);
}

TEST(Programs, of_barrier_make_every_rank_hear_of_every_other) {
  for (int size = 1; size <= 17; ++size) {
    run_all(size, [&](int r) { return Rank{dissemination_barrier(r, size), {}}; });
    // Reachability: after all steps a rank has heard, directly or not, of all.
    std::vector<std::vector<bool>> heard(static_cast<size_t>(size), std::vector<bool>(static_cast<size_t>(size)));
    for (int r = 0; r < size; ++r) heard[static_cast<size_t>(r)][static_cast<size_t>(r)] = true;
    const size_t steps = dissemination_barrier(0, size).steps.size();
    for (size_t s = 0; s < steps; ++s) {
      const auto before = heard;
      for (int r = 0; r < size; ++r) {
        const Program program = dissemination_barrier(r, size);
        const int from = program.steps[s].transfers[1].peer;
        for (int k = 0; k < size; ++k)
          if (before[static_cast<size_t>(from)][static_cast<size_t>(k)])
            heard[static_cast<size_t>(r)][static_cast<size_t>(k)] = true;
      }
    }
    for (const auto& one : heard) EXPECT_EQ(std::count(one.begin(), one.end(), true), size);
  }
}

TEST(Programs, of_broadcast_carry_the_roots_values_everywhere) {
  for_sizes_and_roots([](int size, int root) {
    const Machine m = run_all(size, [&](int r) {
      return Rank{tree_broadcast(r, size, root, 5), {{}, values_of(r, 5), {}}};
    });
    for (int r = 0; r < size; ++r) EXPECT_EQ(m.output(r), values_of(root, 5));
  });
}

TEST(Programs, of_reduce_add_up_on_the_root) {
  for_sizes_and_roots([](int size, int root) {
    const Machine m = run_all(size, [&](int r) {
      return Rank{tree_reduce(r, size, root, 5), {values_of(r, 5), Values(r == root ? 5 : 0), {}}};
    });
    EXPECT_EQ(m.output(root), sums_of(size, 5));
  });
}

TEST(Programs, of_all_reduce_add_up_everywhere_when_blocks_differ_or_are_empty) {
  for (int size = 1; size <= 17; ++size)
    for (const int64_t count : {0, 3, 40}) {
      const Machine m = run_all(size, [&](int r) {
        return Rank{ring_all_reduce(r, size, count), {{}, values_of(r, count), {}}};
      });
      for (int r = 0; r < size; ++r) EXPECT_EQ(m.output(r), sums_of(size, count));
    }
}

TEST(Programs, of_gather_collect_all_blocks_on_the_root) {
  for_sizes_and_roots([](int size, int root) {
    const Counts counts = uneven_counts(size);
    const Machine m = run_all(size, [&](int r) {
      return Rank{naive_gather(r, size, root, counts),
                  {values_of(r, counts[static_cast<size_t>(r)]), Values(r == root ? total(counts) : 0), {}}};
    });
    EXPECT_EQ(m.output(root), blocks_of_all(counts));
  });
}

TEST(Programs, of_scatter_give_each_rank_its_block) {
  for_sizes_and_roots([](int size, int root) {
    const Counts counts = uneven_counts(size);
    const Values all = values_of(root, total(counts));
    const Machine m = run_all(size, [&](int r) {
      return Rank{naive_scatter(r, size, root, counts),
                  {r == root ? all : Values(), Values(counts[static_cast<size_t>(r)]), {}}};
    });
    for (int r = 0; r < size; ++r) EXPECT_EQ(m.output(r), block(all, counts, r));
  });
}

TEST(Programs, of_all_gather_collect_all_blocks_everywhere) {
  for (int size = 1; size <= 17; ++size) {
    const Counts counts = uneven_counts(size);
    const Machine m = run_all(size, [&](int r) {
      return Rank{ring_all_gather(r, size, counts),
                  {values_of(r, counts[static_cast<size_t>(r)]), Values(total(counts)), {}}};
    });
    for (int r = 0; r < size; ++r) EXPECT_EQ(m.output(r), blocks_of_all(counts));
  }
}

TEST(Programs, of_reduce_scatter_give_each_rank_its_block_of_the_sum) {
  for (int size = 1; size <= 17; ++size) {
    const Counts counts = uneven_counts(size);
    const Machine m = run_all(size, [&](int r) {
      return Rank{ring_reduce_scatter(r, size, counts),
                  {values_of(r, total(counts)), Values(counts[static_cast<size_t>(r)]), {}}};
    });
    for (int r = 0; r < size; ++r) EXPECT_EQ(m.output(r), block(sums_of(size, total(counts)), counts, r));
  }
}

TEST(Programs, of_all_to_all_bring_every_block_to_its_rank) {
  for (int size = 1; size <= 17; ++size) {
    const auto count_of = [](int from, int to) { return int64_t{(from * 3 + to) % 4}; };
    const auto block_between = [&](int from, int to) { return values_of(100 * from + to, count_of(from, to)); };
    std::vector<Values> expected(static_cast<size_t>(size));
    const Machine m = run_all(size, [&](int r) {
      Counts sends, receives;
      Values in;
      for (int peer = 0; peer < size; ++peer) {
        sends.push_back(count_of(r, peer));
        receives.push_back(count_of(peer, r));
        for (const int64_t v : block_between(r, peer)) in.push_back(v);
        for (const int64_t v : block_between(peer, r)) expected[static_cast<size_t>(r)].push_back(v);
      }
      return Rank{pairwise_all_to_all(r, size, sends, receives), {in, Values(total(receives)), {}}};
    });
    for (int r = 0; r < size; ++r) EXPECT_EQ(m.output(r), expected[static_cast<size_t>(r)]);
  }
}

TEST(Programs, of_trees_send_as_many_messages_as_their_cost_says) {
  // Broadcast on 4 ranks from root 2: the root sends 2, every other rank receives 1. Reduce on 8: the root receives 3.
  const auto count = [](const Program& program, bool sends) {
    int n = 0;
    for (const Step& step : program.steps)
      for (const Transfer& t : step.transfers) n += (t.kind == Transfer::Kind::send) == sends;
    return n;
  };
  EXPECT_EQ(count(tree_broadcast(2, 4, 2, 1), true), 2);
  for (const int r : {0, 1, 3}) EXPECT_EQ(count(tree_broadcast(r, 4, 2, 1), false), 1);
  EXPECT_EQ(count(tree_reduce(0, 8, 0, 1), false), 3);
  for (int r = 1; r < 8; ++r) EXPECT_EQ(count(tree_reduce(r, 8, 0, 1), true), 1);
}

}  // namespace
}  // namespace adjoin::algorithm
