#include "adjoin/data/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using ::testing::HasSubstr;
using Batches = std::vector<std::vector<int64_t>>;

Batches take(Sampler& sampler, int64_t count) {
  Batches batches;
  for (int64_t i = 0; i < count; ++i) batches.push_back(sampler.next());
  return batches;
}

std::vector<int64_t> sorted_samples(const Batches& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<int64_t> first_integers(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Lengths 0, 1, 2, ... in an order that has nothing to do with the samples' own.
std::vector<int64_t> scattered_lengths(int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(i * 37 % count);
  return lengths;
}

TEST(Sampler, gives_every_sample_once_an_epoch_and_the_rest_as_a_smaller_last_batch) {
  Sampler sampler({.samples = 10, .batch = 4, .seed = 1});
  ASSERT_EQ(sampler.steps_per_epoch(), 3);
  const Batches epoch = take(sampler, 3);
  EXPECT_EQ(epoch[0].size(), 4u);
  EXPECT_EQ(epoch[2].size(), 2u);
  EXPECT_EQ(sorted_samples(epoch), first_integers(10));
  EXPECT_EQ(sampler.position(), (Position{1, 0}));
}

TEST(Sampler, depends_on_seed_and_epoch_alone) {
  const SamplerOptions options{.samples = 100, .batch = 10, .seed = 1};
  Sampler one(options), same(options), other({.samples = 100, .batch = 10, .seed = 2});
  const Batches first = take(one, 10), second = take(one, 10);
  EXPECT_EQ(take(same, 10), first);
  EXPECT_NE(take(other, 10), first);
  EXPECT_NE(second, first);
}

TEST(Sampler, goes_on_exactly_from_a_position) {
  for (const int64_t bucket_batches : {0, 3}) {
    const SamplerOptions options{.samples = 23, .batch = 4, .seed = 5, .bucket_batches = bucket_batches};
    Sampler whole(options, scattered_lengths(23));
    take(whole, 8);
    const Position position = whole.position();
    EXPECT_EQ(position, (Position{1, 2}));
    Sampler resumed(options, scattered_lengths(23));
    resumed.seek(position);
    EXPECT_EQ(take(resumed, 15), take(whole, 15));
  }
}

TEST(Sampler, batches_samples_of_about_equal_length_where_it_buckets) {
  Sampler sampler({.samples = 1003, .batch = 10, .seed = 1, .bucket_batches = 100}, scattered_lengths(1003));
  const Batches epoch = take(sampler, sampler.steps_per_epoch());
  EXPECT_EQ(sorted_samples(epoch), first_integers(1003));
  EXPECT_EQ(epoch.back().size(), 3u);
  const auto lengths = scattered_lengths(1003);
  const auto length = [&](int64_t sample) { return lengths[static_cast<size_t>(sample)]; };
  bool ascending = true;
  for (size_t i = 0; i + 1 < epoch.size(); ++i) {
    ASSERT_EQ(epoch[i].size(), 10u);
    // One window holds all but 3 of the lengths 0..1002, sorted: 10 neighbours span at most 9 + 3.
    EXPECT_LE(length(epoch[i].back()) - length(epoch[i].front()), 12);
    if (i > 0) ascending = ascending && length(epoch[i].front()) > length(epoch[i - 1].front());
  }
  EXPECT_FALSE(ascending);  // the batches themselves are shuffled
}

TEST(Sampler, takes_one_batch_of_all_where_the_batch_is_larger) {
  Sampler sampler({.samples = 3, .batch = 8, .bucket_batches = 2}, {1, 2, 3});
  EXPECT_EQ(sampler.steps_per_epoch(), 1);
  EXPECT_EQ(sorted_samples(take(sampler, 1)), first_integers(3));
}

TEST(Sampler, takes_samples_without_lengths_as_equally_long) {
  Sampler plain({.samples = 100, .batch = 10, .seed = 1});
  Sampler bucketed({.samples = 100, .batch = 10, .seed = 1, .bucket_batches = 5});
  EXPECT_EQ(take(bucketed, 10), take(plain, 10));
}

TEST(Sampler, refuses_what_makes_no_batches) {
  EXPECT_THAT(refusal([] { Sampler({.samples = 0, .batch = 1}); }), HasSubstr("at least one sample, got 0"));
  EXPECT_THAT(refusal([] { Sampler({.samples = 1, .batch = 0}); }), HasSubstr("a batch of at least 1, got 0"));
  EXPECT_THAT(refusal([] {
                Sampler({.samples = 3, .bucket_batches = 1}, {5, 6});
              }),
              HasSubstr("each of the 3 samples, got 2"));
  Sampler sampler({.samples = 10, .batch = 4});
  EXPECT_THAT(refusal([&] { sampler.seek({0, 3}); }), HasSubstr("an epoch has 3 steps, there is no step 3"));
}

TEST(PartOf, covers_the_batch_in_balanced_contiguous_parts) {
  EXPECT_EQ(part_of(7, 0, 3), (BatchPart{0, 3}));
  EXPECT_EQ(part_of(7, 1, 3), (BatchPart{3, 2}));
  EXPECT_EQ(part_of(7, 2, 3), (BatchPart{5, 2}));
}

TEST(PartOf, is_empty_where_there_are_fewer_samples_than_ranks) {
  EXPECT_EQ(part_of(2, 1, 4), (BatchPart{1, 1}));
  EXPECT_EQ(part_of(2, 2, 4), (BatchPart{2, 0}));
  EXPECT_EQ(part_of(0, 0, 1), (BatchPart{0, 0}));
}

TEST(PartOf, refuses_a_rank_that_is_none) {
  EXPECT_THAT(refusal([] { part_of(4, 2, 2); }), HasSubstr("no rank 2 of 2"));
}

}  // namespace
}  // namespace adjoin::data
