#include "adjoin/partition/split.hpp"

#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

using Sizes = std::vector<int64_t>;

TEST(Split, balanced_gives_the_larger_parts_first) {
  EXPECT_EQ(Split::balanced(7, 3, 0).sizes(), (Sizes{3, 2, 2}));
  EXPECT_EQ(Split::balanced(2, 4, 0).sizes(), (Sizes{1, 1, 0, 0}));
  EXPECT_EQ(Split::balanced(0, 2, 0).sizes(), (Sizes{0, 0}));
}

TEST(Split, balanced_follows_the_closed_formula_for_a_million_parts) {
  const int64_t n = 123'456'789;
  const int parts = 1'000'000;
  const Split split = Split::balanced(n, parts, 0);
  for (const int i : {0, 1, 456'788, 456'789, 456'790, 999'999}) {
    EXPECT_EQ(split.size(i), n / parts + (i < n % parts));
    EXPECT_EQ(split.ranges(i)[0].begin, i * (n / parts) + std::min<int64_t>(i, n % parts));
  }
}

TEST(Split, balanced_in_units_never_cuts_a_unit) {
  EXPECT_EQ(Split::balanced(60, 3, 2, 12).sizes(), (Sizes{24, 24, 12}));
  EXPECT_EQ(Split::balanced(50, 3, 2, 12).sizes(), (Sizes{24, 24, 2}));
}

TEST(Split, at_takes_explicit_starts) {
  const Split split = Split::at({0, 4, 4}, 10, 1);
  EXPECT_EQ(split.sizes(), (Sizes{4, 0, 6}));
  EXPECT_EQ(split.ranges(2)[0], (Range{4, 10}));
  EXPECT_TRUE(split.in_order());
}

TEST(Split, of_ranges_keeps_the_order_in_which_a_part_stores_them) {
  const Split zigzag = Split::of_ranges({{{0, 2}, {6, 8}}, {{2, 4}, {4, 6}}}, 8, 0);
  EXPECT_EQ(zigzag.sizes(), (Sizes{4, 4}));
  EXPECT_FALSE(zigzag.in_order());
  EXPECT_EQ(zigzag.offset(1), 4);
  EXPECT_EQ(zigzag.to_string(), "dim 0 of 8 as 4, 4, from [0, 2) [6, 8) [2, 4) [4, 6)");
}

TEST(Split, of_ranges_refuses_holes_and_overlaps) {
  EXPECT_THROW(Split::of_ranges({{{0, 2}}, {{3, 4}}}, 4, 0), InvalidArgument);
  EXPECT_THROW(Split::of_ranges({{{0, 3}}, {{2, 4}}}, 4, 0), InvalidArgument);
  EXPECT_THROW(Split::of_ranges({{{0, 3}}}, 4, 0), InvalidArgument);
  EXPECT_THROW(Split::at({1, 2}, 4, 0), InvalidArgument);
  EXPECT_THROW(Split::at({0, 5}, 4, 0), InvalidArgument);
  EXPECT_THROW(Split::balanced(4, 0, 0), InvalidArgument);
}

TEST(Split, refuses_a_dim_counted_from_the_end) {
  EXPECT_THROW(Split::balanced(4, 2, -1), InvalidArgument);
  EXPECT_THROW(Split::balanced(4, 2, 0).along(-1), InvalidArgument);
}

TEST(Overlaps, of_two_splits_name_every_common_index_once) {
  const Split from = Split::balanced(10, 3, 0), to = Split::of_ranges({{{5, 10}}, {{0, 5}}}, 10, 0);
  const std::vector<Overlap> expected = {
      {0, 1, {0, 4}, 0, 0}, {1, 1, {4, 5}, 0, 4}, {1, 0, {5, 7}, 1, 0}, {2, 0, {7, 10}, 0, 2}};
  EXPECT_EQ(overlaps(from, to), expected);
}

TEST(Overlaps, of_a_million_parts_are_as_many_as_their_borders) {
  const Split from = Split::balanced(4'000'000, 1'000'000, 0), to = Split::balanced(4'000'000, 999'999, 0);
  const auto found = overlaps(from, to);
  int64_t covered = 0;
  for (const Overlap& overlap : found) covered += overlap.range.size();
  EXPECT_EQ(covered, 4'000'000);
  EXPECT_LT(found.size(), 2'000'000u);  // a merge of two sorted lists has fewer pieces than both have parts
}

TEST(Split, covering_parts_may_overlap_repeat_and_leave_holes) {
  const Split ghosts = Split::covering({{{0, 5}}, {{3, 8}}, {{7, 9}, {0, 1}}}, 10, 0);
  EXPECT_FALSE(ghosts.is_exact());
  EXPECT_FALSE(ghosts.in_order());
  EXPECT_EQ(ghosts.sizes(), (Sizes{5, 5, 3}));
  EXPECT_TRUE(Split::covering({{{4, 9}}, {{0, 4}}}, 9, 0).is_exact());
  EXPECT_THROW(Split::covering({{{0, 11}}}, 10, 0), InvalidArgument);
  EXPECT_THROW(Split::covering({{{-1, 1}}}, 10, 0), InvalidArgument);
  EXPECT_THROW(Split::covering({}, 10, 0), InvalidArgument);

  std::vector<std::vector<int>> found(10);  // the parts that have each index
  ghosts.visit_overlaps({0, 10}, [&](int part, Range common, int64_t) {
    for (int64_t i = common.begin; i < common.end; ++i) found[static_cast<size_t>(i)].push_back(part);
  });
  EXPECT_EQ(found, (std::vector<std::vector<int>>{{0, 2}, {0}, {0}, {0, 1}, {0, 1}, {1}, {1}, {1, 2}, {2}, {}}));
}

TEST(Overlaps, of_an_exact_and_a_covering_split_name_each_part_that_wants_an_index) {
  const Split exact = Split::balanced(10, 2, 0), ghosts = Split::covering({{{0, 6}}, {{4, 10}}}, 10, 0);
  EXPECT_EQ(
      overlaps(exact, ghosts),
      (std::vector<Overlap>{{0, 0, {0, 5}, 0, 0}, {0, 1, {4, 5}, 4, 0}, {1, 0, {5, 6}, 0, 5}, {1, 1, {5, 10}, 0, 1}}));
  EXPECT_EQ(overlaps(ghosts, 1, exact), (std::vector<Overlap>{{1, 0, {4, 5}, 0, 4}, {1, 1, {5, 10}, 1, 0}}));
}

}  // namespace
}  // namespace adjoin
