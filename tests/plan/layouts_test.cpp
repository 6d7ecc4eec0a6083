#include "adjoin/plan/layouts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "adjoin/train/trainer.hpp"
#include "tests/support/random_task.hpp"

namespace adjoin::plan {
namespace {

using train::Configuration;

Configuration small(int64_t experts) {
  Configuration c = train::configuration_of("tiny");
  c.hidden = 12;
  c.heads = 3;
  c.layers = 3;
  c.sequence = 8;
  c.batch = 6;
  c.vocabulary_size = 64;
  c.experts.count = experts;
  return c;
}

std::vector<models::Segment> segments_for(const Configuration& c) {
  return segments_of(c, *testing::random_task(c, 6, [](int64_t) { return 8; }));
}

/// What a configuration comes to: what changes nothing there is as by default.
std::string canonical(Configuration c) {
  if (c.cp == 1) c.cp_method = nn::AttentionMethod::ring;
  if (c.pp == 1) c.pipeline = "1f1b";
  return options_of(c);
}

/// The layouts of so many ranks among all values of each option, by train's own checks.
std::set<std::string> accepted_of(const Configuration& base, int64_t ranks) {
  std::set<std::string> accepted;
  Configuration c = base;
  const auto add_uses = [&] {
    for (const bool sp : {false, true})
      for (const auto method : {nn::AttentionMethod::ring, nn::AttentionMethod::ulysses, nn::AttentionMethod::gathered})
        for (const int64_t zero : {1, 2, 3})
          for (const auto recompute : {train::Recompute::none, train::Recompute::attention, train::Recompute::segment})
            for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1"})
              for (const int64_t chunks : {1, 2, 3, 4})
                for (const int64_t microbatches : {1, 2, 3, 4, 6}) {
                  c.sp = sp, c.cp_method = method, c.zero = zero, c.recompute = recompute;
                  c.pipeline = name, c.chunks = chunks, c.microbatches = microbatches;
                  // What stands once, though train takes it twice.
                  if (c.recompute == train::Recompute::attention &&
                      (c.cp == 1 || c.cp_method != nn::AttentionMethod::gathered))
                    continue;
                  if (c.zero > 1 && c.dp * c.cp == 1) continue;
                  if (c.pp == 1 && (c.pipeline != "1f1b" || c.chunks > 1 || c.microbatches > 1)) continue;
                  // What is tried of many.
                  const int64_t samples = c.batch / c.dp;
                  const bool is_multiple =
                      c.microbatches % c.pp == 0 && std::set<int64_t>{1, 2, 4}.contains(c.microbatches / c.pp);
                  const bool is_tried =
                      samples >= c.pp ? is_multiple && c.microbatches <= samples : c.microbatches == samples;
                  if (c.pp > 1 && !is_tried) continue;
                  if (c.pp > 1 && (c.pipeline == "interleaved") != (c.chunks > 1)) continue;
                  if (c.chunks == 3) continue;
                  std::string why;
                  if (is_accepted(c, segments_for(c), why)) accepted.insert(canonical(c));
                }
  };
  for (c.dp = 1; c.dp <= ranks; ++c.dp)
    for (c.ep = 1; c.ep <= c.dp; ++c.ep)
      for (c.pp = 1; c.pp <= ranks; ++c.pp)
        for (c.cp = 1; c.cp <= ranks; ++c.cp)
          for (c.tp = 1; c.tp <= ranks; ++c.tp)
            if (c.dp * c.pp * c.cp * c.tp == ranks && c.dp <= c.batch) add_uses();
  return accepted;
}

TEST(PlannedLayouts, are_all_that_train_takes_and_no_others) {
  for (const int64_t experts : {1, 4})
    for (const int64_t ranks : {1, 2, 4}) {
      const Configuration base = small(experts);
      std::set<std::string> listed;
      for (const Configuration& c : candidates(base, ranks, {}, std::ssize(segments_for(base))).layouts) {
        std::string why;
        if (!is_accepted(c, segments_for(c), why)) continue;
        EXPECT_TRUE(listed.insert(canonical(c)).second) << canonical(c) << " stands twice";
      }
      EXPECT_EQ(listed, accepted_of(base, ranks)) << ranks << " ranks, " << experts << " experts";
    }
}

TEST(PlannedLayouts, keep_what_is_fixed) {
  Configuration base = small(1);
  base.zero = 2;
  base.recompute = train::Recompute::segment;
  base.microbatches = 3;
  for (const Configuration& c : candidates(base, 4, {"zero", "recompute", "microbatches"}, 5).layouts) {
    EXPECT_EQ(c.zero, 2);
    EXPECT_EQ(c.recompute, train::Recompute::segment);
    EXPECT_EQ(c.microbatches, 3);
  }
}

TEST(PlannedLayouts, have_halves_where_each_rank_is_on_a_host_of_its_own) {
  for (const int64_t ranks_a_host : {1, 2, 4}) {
    int halves = 0;
    for (const Configuration& c : candidates(small(1), 4, {}, 5, ranks_a_host).layouts) {
      halves += c.halves;
      std::string why;
      EXPECT_TRUE(!c.halves || is_accepted(c, segments_for(c), why)) << why;
    }
    EXPECT_EQ(halves > 0, ranks_a_host == 1);
  }
}

TEST(PlannedLayouts, leave_out_and_count_grids_whose_ranks_would_get_no_sample) {
  const Candidates found = candidates(small(1), 8, {}, 5);
  EXPECT_EQ(found.without_samples, 1);  // dp 8 of a batch of 6
  for (const Configuration& c : found.layouts) EXPECT_LE(c.dp, 6);
}

TEST(PlannedLayouts, of_many_ranks_are_few_and_say_what_was_left_out) {
  Configuration base = train::configuration_of("bert-base");
  base.batch = 4096;
  const Candidates found = candidates(base, 1024, {}, 14);
  EXPECT_GT(found.layouts.size(), 1000U);
  EXPECT_LT(found.layouts.size(), 10000U);
  EXPECT_THAT(found.choices, ::testing::Contains(::testing::HasSubstr("above 16 ranks")));
}

TEST(PlannedLayouts, are_told_as_options) {
  Configuration c = small(1);
  EXPECT_EQ(options_of(c), "--dp 1");
  c.dp = 2, c.tp = 2, c.sp = true, c.zero = 3, c.recompute = train::Recompute::segment;
  EXPECT_EQ(options_of(c), "--dp 2 --tp 2 --sp --zero 3 --recompute segment");
}

}  // namespace
}  // namespace adjoin::plan
