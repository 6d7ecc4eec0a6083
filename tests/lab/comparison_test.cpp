#include "adjoin/lab/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"

namespace adjoin::lab {
namespace {

using algorithm::Network;

constexpr Network kCluster{.alpha = 1e-6, .beta = 1e-9};

TEST(Comparison, names_the_quickest_first) {
  // Short messages cost steps: log2(8) = 3 of a butterfly against 14 of a ring. Long ones cost bytes: 3 S against 1.75 S.
  EXPECT_EQ(compare(Collective::all_reduce, 8, 8, 0, kCluster).contenders.front().algorithm, "butterfly");
  const Contest contest = compare(Collective::all_reduce, 8, 1 << 26, 0, kCluster);
  EXPECT_EQ(contest.contenders.front().algorithm, "rabenseifner");  // as many bytes as the ring in 6 messages
  EXPECT_NEAR(contest.contenders.front().seconds, 6e-6 + 1.75 * 1e-9 * (1 << 26), 1e-12);
  EXPECT_EQ(contest.contenders.back().algorithm, "naive");
  EXPECT_NEAR(contest.contenders.back().seconds, 14 * (1e-6 + 1e-9 * (1 << 26)), 1e-12);
}

TEST(Comparison, compares_every_algorithm_of_every_operation) {
  for (int i = 0; i < kCollectives; ++i)
    for (const int ranks : {1, 2, 6, 64}) {
      const auto collective = static_cast<Collective>(i);
      const Contest contest = compare(collective, ranks, 1000, 0, kCluster);
      EXPECT_EQ(contest.contenders.size(), algorithm::names_of(collective).size());
      for (size_t c = 1; c < contest.contenders.size(); ++c)
        EXPECT_LE(contest.contenders[c - 1].seconds, contest.contenders[c].seconds);
    }
}

Contender ring(int ranks, int64_t bytes, int64_t chunk, const Network& network = kCluster) {
  const Contest contest = compare(Collective::broadcast, ranks, bytes, chunk, network);
  return *std::find_if(contest.contenders.begin(), contest.contenders.end(),
                       [](const Contender& c) { return c.algorithm == "ring"; });
}

TEST(Comparison, gives_a_pipeline_the_best_of_chunks) {
  const Contender best = ring(16, 1 << 20, 0);
  EXPECT_EQ(best.chunk, 8654);  // 1 MiB / sqrt(14 * 1e-9 * 2^20 / 1e-6) = 8654.3
  for (const int64_t chunk : {best.chunk / 4, best.chunk / 2, best.chunk * 2, best.chunk * 4, int64_t{1} << 20})
    EXPECT_LT(best.seconds, ring(16, 1 << 20, chunk).seconds) << chunk;
  EXPECT_EQ(ring(2, 1 << 20, 0).chunk, 0);  // nobody passes anything on
  EXPECT_EQ(ring(16, 0, 0).chunk, 0);
  EXPECT_EQ(ring(16, 1 << 20, 0, {.alpha = 1e-6, .beta = 0}).chunk, 0);
  EXPECT_EQ(ring(16, 1 << 20, 0, {.alpha = 0, .beta = 1e-9}).chunk, 1);
}

}  // namespace
}  // namespace adjoin::lab
