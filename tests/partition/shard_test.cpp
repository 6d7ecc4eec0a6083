#include "adjoin/partition/shard.hpp"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

std::vector<std::vector<Range>> parts_of(const Split& split) {
  std::vector<std::vector<Range>> parts;
  for (int part = 0; part < split.parts(); ++part)
    parts.emplace_back(split.ranges(part).begin(), split.ranges(part).end());
  return parts;
}

TEST(Refined, cuts_each_part_further_in_the_order_of_its_piece) {
  const Split split = Split::of_ranges({{{0, 3}, {5, 8}}, {{3, 5}}}, 8, 1);
  const Split further = refined(split, 3);
  EXPECT_EQ(parts_of(further),
            (std::vector<std::vector<Range>>{{{0, 2}}, {{2, 3}, {5, 6}}, {{6, 8}}, {{3, 4}}, {{4, 5}}, {}}));
  EXPECT_EQ(further.dim(), 1);
  EXPECT_TRUE(further.is_exact());
  EXPECT_EQ(refined(split, 1), split);
}

TEST(Sharded, gives_each_worker_whole_rows_of_what_it_holds_a_copy_of) {
  const GridShape grid({{"dp", 2}, {"tp", 2}});  // cells 0 and 2 have a copy of the first part, 1 and 3 of the other
  const Layout layout(grid, {5, 3}, {{Split::balanced(5, 2, 0), {"tp"}}}, {{"dp", Kind::copied}});
  const Layout shards = sharded(layout);
  const Range expected[] = {{0, 2}, {3, 4}, {2, 3}, {4, 5}};
  for (int cell = 0; cell < 4; ++cell) {
    EXPECT_EQ(shards.ranges_of(cell)[0], std::vector<Range>{expected[cell]}) << cell;
    EXPECT_EQ(shards.shape_of(cell), (std::vector<int64_t>{expected[cell].size(), 3})) << cell;
  }
  EXPECT_TRUE(shards.axes(Kind::copied).empty());
}

TEST(Sharded, leaves_replicas_whole_and_cuts_a_number_not_at_all) {
  const GridShape grid({{"dp", 2}, {"tp", 2}});
  const Layout replicated(grid, {4}, {}, {{"dp", Kind::copied}});
  EXPECT_EQ(sharded(replicated).shape_of(0), std::vector<int64_t>{2});
  EXPECT_EQ(sharded(replicated).kind("tp"), Kind::replicated);
  const Layout number(grid, {}, {}, {{"dp", Kind::copied}, {"tp", Kind::copied}});
  EXPECT_TRUE(sharded(number).shape_on(0).empty());
  for (const int rank : {1, 2, 3}) EXPECT_EQ(sharded(number).shape_on(rank), std::vector<int64_t>{0});
}

}  // namespace
}  // namespace adjoin
