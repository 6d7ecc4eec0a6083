// Which algorithm is taken where nobody names one, and in which pieces.

#include "adjoin/comm/algorithm/catalogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "paths.hpp"
#include "tests/support/calls.hpp"

namespace adjoin::algorithm {
namespace {

using namespace adjoin::testing;

/// A call that moves about `bytes` in all, one byte an element.
Request request_of(Collective collective, int size, int64_t bytes) {
  Request q{.collective = collective, .size = size, .count = bytes};
  if (collective == Collective::broadcast) q.chunk = chunk_for(size, bytes, 1);
  const size_t blocks = some_counts(collective, size)[0].size();
  q.counts.assign(blocks, bytes / size);
  return q;
}

TEST(Choice, is_quick_on_the_usual_network) {
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (collective == Collective::all_to_all) continue;  // its bytes are not known to all ranks
    for (int size = 2; size <= 64; ++size)
      for (int64_t bytes = 64; bytes <= 256 << 20; bytes *= 2) {
        const Request q = request_of(collective, size, bytes);
        double best = seconds_of(q, names_of(collective)[0], 1, kUsualNetwork);
        for (const std::string_view algorithm : names_of(collective))
          best = std::min(best, seconds_of(q, algorithm, 1, kUsualNetwork));
        const std::string_view chosen = choose(collective, size, bytes);
        EXPECT_LE(seconds_of(q, chosen, 1, kUsualNetwork), 1.05 * best)  // bytes are not always divisible
            << name(collective) << " by " << chosen << " on " << size << " ranks, " << bytes << " bytes";
      }
  }
}

TEST(Choice, is_made_for_every_call) {
  for (int c = 0; c < kCollectives; ++c)
    for (const int size : {1, 2, 3, 1 << 20})
      for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1} << 50})
        EXPECT_FALSE(choose(static_cast<Collective>(c), size, bytes).empty());
}

TEST(Choice, changes_from_few_messages_to_few_bytes) {
  EXPECT_EQ(choose(Collective::all_reduce, 8, 1024), "butterfly");
  EXPECT_EQ(choose(Collective::all_reduce, 8, 1 << 20), "rabenseifner");
  EXPECT_EQ(choose(Collective::all_reduce, 6, 1 << 20), "ring");
  EXPECT_EQ(choose(Collective::broadcast, 8, 1024), "tree");
  EXPECT_EQ(choose(Collective::broadcast, 8, 16 << 20), "ring");
  EXPECT_EQ(choose(Collective::gather, 8, 1024), "tree");
  EXPECT_EQ(choose(Collective::gather, 8, 64 << 20), "naive");  // as quick, without scratch
  EXPECT_EQ(choose(Collective::all_gather, 6, 64 << 20), "ring");
}

TEST(Choice, is_of_algorithms_that_the_documentation_explains) {
  std::ifstream file(ADJOIN_SOURCE_DIR "/docs/collectives.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for_each_algorithm([&](Collective collective, std::string_view algorithm) {
    const size_t section = page.find("\n## " + std::string(name(collective)) + "\n");
    ASSERT_NE(section, std::string::npos) << name(collective);
    const size_t end = page.find("\n## ", section + 1), found = page.find("\n### " + std::string(algorithm), section);
    EXPECT_LT(found, end) << name(collective) << " " << algorithm;
  });
}

TEST(Choice, cuts_a_pipeline_so_that_no_other_chunk_is_quicker) {
  for (const int size : {3, 8, 33})
    for (const int64_t bytes : {int64_t{1} << 12, int64_t{1} << 20, int64_t{1} << 26}) {
      Request q{.collective = Collective::broadcast, .size = size, .count = bytes};
      q.chunk = chunk_for(size, bytes, 1);
      const double chosen = seconds_of(q, "ring", 1, kUsualNetwork);
      for (const double factor : {0.125, 0.25, 0.5, 2.0, 4.0, 8.0}) {
        Request other = q;
        other.chunk = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(q.chunk) * factor));
        EXPECT_LE(chosen, 1.05 * seconds_of(other, "ring", 1, kUsualNetwork));  // pieces are whole numbers
      }
    }
}

}  // namespace
}  // namespace adjoin::algorithm
