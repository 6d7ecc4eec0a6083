#include "adjoin/partition/sum_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

using ::testing::ElementsAre;

/// How a node was added up, where all parts are there.
std::string written(Range node) {
  if (node.size() == 1) return std::to_string(node.begin);
  const auto [first, second] = SumTree::halves(node);
  return "(" + written(first) + " + " + written(second) + ")";
}

TEST(SumTree, covers_ranges_by_the_fewest_nodes) {
  EXPECT_THAT(SumTree{8}.nodes_of({{0, 8}}), ElementsAre(Range{0, 8}));
  EXPECT_THAT(SumTree{8}.nodes_of({{1, 7}}), ElementsAre(Range{1, 2}, Range{2, 4}, Range{4, 6}, Range{6, 7}));
  EXPECT_THAT(SumTree{5}.nodes_of({{0, 4}}), ElementsAre(Range{0, 3}, Range{3, 4}));
  EXPECT_THAT(SumTree{5}.nodes_of({{2, 2}}), ElementsAre());
}

TEST(SumTree, has_one_order_whoever_holds_which_parts) {
  std::mt19937 random(1);
  for (int64_t parts = 1; parts <= 17; ++parts)
    for (int draw = 0; draw < 20; ++draw) {
      std::map<int64_t, std::string> nodes;  // by where they begin
      for (int64_t begin = 0; begin < parts;) {
        const int64_t end = std::min<int64_t>(parts, begin + 1 + static_cast<int64_t>(random() % 5));
        for (const Range& node : SumTree{parts}.nodes_of({{begin, end}})) nodes[node.begin] = written(node);
        begin = end;
      }
      const auto there = [&](Range node) -> std::optional<std::string> {
        const auto found = nodes.find(node.begin);
        return found != nodes.end() && found->second == written(node) ? std::optional(found->second) : std::nullopt;
      };
      const auto add = [](const std::string& a, const std::string& b) { return "(" + a + " + " + b + ")"; };
      EXPECT_EQ(sum_of_node<std::string>({0, parts}, there, add), written({0, parts}));
    }
}

TEST(SumTree, is_added_up_in_any_order_of_arrival) {
  std::mt19937 random(2);
  for (int64_t parts = 1; parts <= 17; ++parts)
    for (int draw = 0; draw < 20; ++draw) {
      std::vector<Range> arriving;
      for (int64_t part = 0; part < parts; ++part) arriving.push_back({part, part + 1});
      std::shuffle(arriving.begin(), arriving.end(), random);
      SumArrivals<std::string> sums(
          SumTree{parts}, [](const std::string& a, const std::string& b) { return "(" + a + " + " + b + ")"; });
      for (const Range& part : arriving) sums.add(part, written(part));
      EXPECT_THAT(sums.nodes(), ElementsAre(std::pair(Range{0, parts}, written({0, parts}))));
    }
}

TEST(SumTree, keeps_what_has_come_as_few_nodes) {
  SumArrivals<int> sums(SumTree{8}, std::plus<int>());
  for (const int64_t part : {5, 0, 3, 2, 7, 4}) sums.add({part, part + 1}, static_cast<int>(part));
  EXPECT_THAT(sums.nodes(), ElementsAre(std::pair(Range{0, 1}, 0), std::pair(Range{2, 4}, 5), std::pair(Range{4, 6}, 9),
                                        std::pair(Range{7, 8}, 7)));
}

TEST(SumTree, completes_a_part_when_the_next_one_of_its_row_begins) {
  GrowingSums<std::string> sums(SumTree{4},
                                [](const std::string& a, const std::string& b) { return "(" + a + " + " + b + ")"; });
  const auto grow = [&](int64_t row, int64_t part, char by) {
    sums.of(row, part, [] { return std::string(); }) += by;
    return sums.all().size();
  };
  EXPECT_EQ(grow(0, 0, 'a'), 1u);
  EXPECT_EQ(grow(0, 0, 'b'), 1u);
  EXPECT_EQ(grow(1, 3, 'c'), 2u);
  EXPECT_EQ(grow(0, 1, 'd'), 3u) << "part 0 waits for the end of part 1";
  EXPECT_EQ(grow(0, 2, 'e'), 3u) << "parts 0 and 1 are one node";
  sums.complete();
  EXPECT_EQ(sums.take({0, 4}), "((ab + d) + (e + c))");
  EXPECT_EQ(sums.take({0, 4}), std::nullopt);
}

TEST(SumTree, adds_nothing_for_parts_that_are_absent) {
  const auto there = [](Range node) { return node == Range{2, 3} ? std::optional(5) : std::nullopt; };
  EXPECT_EQ(sum_of_node<int>({0, 4}, there, std::plus<int>()), 5);
  EXPECT_EQ(sum_of_node<int>({0, 2}, there, std::plus<int>()), std::nullopt);
}

TEST(WholeParts, are_found_in_the_order_in_which_a_rank_stores_them) {
  // Two layers of four features in four parts each, of which rank 1 of 2 stores the second half of each.
  const Split ranks = Split::of_ranges({{{0, 2}, {4, 6}}, {{2, 4}, {6, 8}}}, 8, 0),
              parts = Split::of_ranges({{{0, 1}, {4, 5}}, {{1, 2}, {5, 6}}, {{2, 3}, {6, 7}}, {{3, 4}, {7, 8}}}, 8, 0);
  const WholeParts found(ranks, 1, parts, "features");
  EXPECT_EQ(found.held_by(1), (Range{2, 4}));
  EXPECT_THAT(found.local, ElementsAre(ElementsAre(Range{0, 1}, Range{2, 3}), ElementsAre(Range{1, 2}, Range{3, 4})));
}

TEST(WholeParts, refuse_ranks_that_share_a_part) {
  EXPECT_THROW(WholeParts(Split::balanced(9, 3, 0), 1, Split::balanced(9, 2, 0), "features"), InvalidArgument);
  EXPECT_THROW(WholeParts(Split::at({0, 4}, 6, 0), 0, Split::balanced(6, 2, 0), "features"), InvalidArgument);
}

}  // namespace
}  // namespace adjoin
