// Thousands of collectives in a random order on several groups, every result checked.

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using testing::for_each_world;

using Values = std::vector<int64_t>;

constexpr int kOperations = 9;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 200;
#else
constexpr int kRounds = 3600;
#endif

/// What `rank` gives to call `n`, element i.
int64_t given(int n, int rank, int64_t i) {
  return n + 17 * rank + 3 * i;
}

Values values_of(int n, int rank, int64_t count) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(given(n, rank, i));
  return values;
}

Values blocks_of_all(int n, const Values& counts) {
  Values values;
  for (size_t r = 0; r < counts.size(); ++r)
    for (const int64_t v : values_of(n, static_cast<int>(r), counts[r])) values.push_back(v);
  return values;
}

int64_t sum_over(int n, int ranks, int64_t i) {
  int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += given(n, r, i);
  return sum;
}

int64_t total_of_values(const Values& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

int64_t start_of(const Values& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

/// One call on one group, drawn from `random`, which is in the same state on all its ranks.
class RandomCall {
 public:
  RandomCall(const Communicator& group, std::mt19937& random, int n) : group_(group), n_(n) {
    const int64_t scale = random() % 16 == 0 ? 3000 : 20;
    operation_ = static_cast<int>(random() % kOperations);
    root_ = static_cast<int>(random() % static_cast<unsigned>(group.size()));
    count_ = static_cast<int64_t>(random() % static_cast<unsigned>(scale));
    for (int r = 0; r < group.size(); ++r)
      counts_.push_back(static_cast<int64_t>(random() % static_cast<unsigned>(scale)));
    own_ = counts_[static_cast<size_t>(group.rank())];
  }

  void run() const {
    const bool at_root = group_.rank() == root_;
    Values in = values_of(n_, group_.rank(), count_), out;
    switch (operation_) {
      case 0:
        return group_.barrier();
      case 1:
        group_.broadcast(buffer(in), root_);
        ASSERT_EQ(in, values_of(n_, root_, count_));
        return;
      case 2:
        out.resize(static_cast<size_t>(at_root ? count_ : 0));
        group_.reduce(buffer(in), buffer(out), Reduction::sum, root_);
        return expect_sums(out, 0);
      case 3:
        group_.all_reduce(buffer(in));
        return expect_sums(in, 0);
      case 4:
        in = values_of(n_, group_.rank(), own_);
        out.resize(static_cast<size_t>(at_root ? total_of_values(counts_) : 0));
        group_.gather(buffer(in), buffer(out), counts_, root_);
        if (at_root) {
          ASSERT_EQ(out, blocks_of_all(n_, counts_));
        }
        return;
      case 5:
        in = at_root ? values_of(n_, root_, total_of_values(counts_)) : Values();
        out.resize(static_cast<size_t>(own_));
        group_.scatter(buffer(in), buffer(out), counts_, root_);
        for (int64_t i = 0; i < own_; ++i)
          ASSERT_EQ(out[static_cast<size_t>(i)], given(n_, root_, start_of(counts_, group_.rank()) + i));
        return;
      case 6:
        in = values_of(n_, group_.rank(), own_);
        out.resize(static_cast<size_t>(total_of_values(counts_)));
        group_.all_gather(buffer(in), buffer(out), counts_);
        ASSERT_EQ(out, blocks_of_all(n_, counts_));
        return;
      case 7:
        in = values_of(n_, group_.rank(), total_of_values(counts_));
        out.resize(static_cast<size_t>(own_));
        group_.reduce_scatter(buffer(in), buffer(out), counts_);
        return expect_sums(out, start_of(counts_, group_.rank()));
      default:
        return exchange_all();
    }
  }

 private:
  void expect_sums(const Values& out, int64_t begin) const {
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], sum_over(n_, group_.size(), begin + static_cast<int64_t>(i)));
  }

  /// Rank r sends counts_[p] elements to rank p.
  void exchange_all() const {
    const Values in = values_of(n_, group_.rank(), total_of_values(counts_));
    const Values receive_counts(static_cast<size_t>(group_.size()), own_);
    Values out(static_cast<size_t>(own_ * group_.size()));
    group_.all_to_all(const_buffer(in), counts_, buffer(out), receive_counts);
    for (int peer = 0; peer < group_.size(); ++peer)
      for (int64_t i = 0; i < own_; ++i)
        ASSERT_EQ(out[static_cast<size_t>(peer * own_ + i)], given(n_, peer, start_of(counts_, group_.rank()) + i));
  }

  const Communicator& group_;
  int n_, operation_, root_;
  int64_t count_, own_;
  Values counts_;
};

Communicator in_steps(Communicator group) {
  for (int c = 0; c < kCollectives; ++c) group = group.with_algorithm(static_cast<Collective>(c), "auto");
  return group;
}

// 7 worlds of threads with four calls a round: more than 100,000 collectives.
TEST(Collectives, give_right_results_in_any_order_on_several_groups) {
  const int rounds = started_by_mpi() ? 500 : kRounds;
  for_each_world({2, 3, 4, 5, 6, 7, 8}, [&](const Communicator& world) {
    const auto halves = world.split(world.rank() % 2, world.rank());
    const auto reversed = world.split(0, -world.rank());
    const Communicator steps = in_steps(*world.split(0, world.rank()));
    const AsyncCommunicator async(*reversed);
    std::mt19937 shared(12345);                                            // in step on all ranks of the world
    std::mt19937 of_half(777u + static_cast<unsigned>(world.rank() % 2));  // in step within each half
    for (int n = 0; n < rounds; ++n) {
      const Handle beside =
          async.run([state = shared, n](const Communicator& group) mutable { RandomCall(group, state, n).run(); });
      RandomCall(world, shared, n).run();
      RandomCall(*halves, of_half, n).run();
      RandomCall(steps, shared, n).run();
      beside.wait();
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(AllReduce, repeats_to_the_bit_from_run_to_run) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    std::mt19937 random(static_cast<unsigned>(world.rank()));
    std::vector<float> given(20000);
    for (float& x : given) x = std::generate_canonical<float, 24>(random) - 0.5f;
    auto first = given;
    world.all_reduce(buffer(first));
    for (int again = 0; again < 20; ++again) {
      auto x = given;
      world.all_reduce(buffer(x));
      ASSERT_EQ(x, first);
    }
  });
}

}  // namespace
}  // namespace adjoin
