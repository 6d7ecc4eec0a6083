#include "adjoin/partition/grid.hpp"

#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "adjoin/partition/layout.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

TEST(GridShape, counts_row_major_with_the_last_axis_fastest) {
  const GridShape grid({{"dp", 2}, {"tp", 4}});
  EXPECT_EQ(grid.cells(), 8);
  EXPECT_EQ(grid.coordinates(6), (std::vector<int>{1, 2}));
  EXPECT_EQ(grid.cell_at({1, 2}), 6);
  EXPECT_EQ(grid.ranks_along(6, {"tp"}), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(grid.ranks_along(6, {"dp"}), (std::vector<int>{2, 6}));
  EXPECT_EQ(grid.ranks_along(1, {"tp", "dp"}), (std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST(GridShape, may_use_any_ranks_of_the_world) {
  const GridShape grid({{"x", 2}}, {5, 3});
  EXPECT_EQ(grid.cell_of(3), 1);
  EXPECT_EQ(grid.cell_of(0), std::nullopt);
  EXPECT_THROW(GridShape({{"x", 2}}, {1, 1}), InvalidArgument);
  EXPECT_THROW(GridShape({{"x", 2}}, {1}), InvalidArgument);
  EXPECT_THROW(GridShape({{"x", 0}}), InvalidArgument);
  EXPECT_THROW(GridShape({{"x", 1}, {"x", 1}}), InvalidArgument);
}

TEST(GridShape, has_subgrids_and_unions) {
  const GridShape grid({{"dp", 2}, {"tp", 3}}, {9, 8, 7, 3, 2, 1});
  EXPECT_EQ(grid.at("dp", 1), GridShape({{"tp", 3}}, {3, 2, 1}));
  EXPECT_EQ(grid.at("tp", 0), GridShape({{"dp", 2}}, {9, 3}));
  EXPECT_THROW(grid.at("tp", 3), InvalidArgument);
  EXPECT_EQ(GridShape::united(grid.at("dp", 0), grid.at("tp", 0)), GridShape({{"ranks", 4}}, {3, 7, 8, 9}));
  EXPECT_EQ(GridShape::positional({2, 3}), GridShape({{"0", 2}, {"1", 3}}));
  EXPECT_EQ(GridShape({{"x", 2}}, {0, 1}), GridShape({{"x", 2}}));
  EXPECT_EQ(grid.at("dp", 1).to_string(), "{tp: 3} of ranks 3, 2, 1");
}

TEST(Grid, axis_communicators_link_the_workers_that_differ_on_that_axis) {
  for_each_world({4}, [](const Communicator& world) {
    if (world.size() != 4) return;
    const Grid grid(world, {{"dp", 2}, {"tp", 2}});
    EXPECT_EQ(grid.coordinate("dp"), world.rank() / 2);
    EXPECT_EQ(grid.coordinate("tp"), world.rank() % 2);
    std::vector<int64_t> sum{world.rank()};
    grid.axis("tp").all_reduce(buffer(sum));
    EXPECT_EQ(sum[0], world.rank() / 2 == 0 ? 1 : 5);
    EXPECT_THROW(grid.axis("pp"), InvalidArgument);
  });
}

TEST(Grid, a_worker_outside_has_no_coordinates) {
  for_each_world({3}, [](const Communicator& world) {
    if (world.size() != 3) return;
    const Grid grid(world, {{"tp", 2}});
    EXPECT_EQ(grid.has_me(), world.rank() < 2);
    if (!grid.has_me()) {
      EXPECT_THROW(grid.coordinate("tp"), InvalidArgument);
    }
    EXPECT_THROW(Grid(world, {{"tp", 4}}), InvalidArgument);
  });
}

TEST(Grid, at_a_coordinate_shares_the_communicators) {
  for_each_world({4}, [](const Communicator& world) {
    if (world.size() < 4) return;
    const Grid grid(world, {{"dp", 2}, {"pp", 2}, {"tp", 1}});
    const Grid stage = grid.at("pp", grid.coordinate("pp"));
    EXPECT_EQ(stage.shape(), grid.shape().at("pp", grid.coordinate("pp")));
    EXPECT_EQ(stage.coordinate("dp"), grid.coordinate("dp"));
    EXPECT_EQ(&stage.axis("dp"), &grid.axis("dp"));
    EXPECT_FALSE(grid.at("pp", 1 - grid.coordinate("pp")).has_me());
  });
}

TEST(Layout, gives_each_cell_its_piece_of_every_dim) {
  const GridShape grid({{"dp", 2}, {"tp", 3}});
  const Layout layout(grid, {5, 7, 4}, {{Split::balanced(5, 2, 0), {"dp"}}, {Split::balanced(7, 3, 1), {"tp"}}});
  EXPECT_EQ(layout.shape_of(0), (std::vector<int64_t>{3, 3, 4}));
  EXPECT_EQ(layout.shape_of(5), (std::vector<int64_t>{2, 2, 4}));
  EXPECT_EQ(layout.ranges_of(5)[1][0], (Range{5, 7}));
  const Layout both(grid, {12}, {{Split::balanced(12, 6, 0), {"tp", "dp"}}});
  EXPECT_EQ(both.parts_of(4)[0], 3);  // dp 1, tp 1: tp counts first
}

TEST(Layout, refuses_cuts_that_do_not_fit) {
  const GridShape grid({{"dp", 2}, {"tp", 3}});
  EXPECT_THROW(Layout(grid, {5}, {{Split::balanced(6, 2, 0), {"dp"}}}), InvalidArgument);
  EXPECT_THROW(Layout(grid, {5}, {{Split::balanced(5, 3, 0), {"dp"}}}), InvalidArgument);
  EXPECT_THROW(Layout(grid, {5}, {{Split::balanced(5, 2, 1), {"dp"}}}), InvalidArgument);
  EXPECT_THROW(Layout(grid, {4, 4}, {{Split::balanced(4, 2, 0), {"dp"}}, {Split::balanced(4, 2, 1), {"dp"}}}),
               InvalidArgument);
}

TEST(Layout, has_a_kind_along_each_axis) {
  const GridShape grid({{"dp", 2}, {"cp", 2}, {"tp", 3}});
  const Layout layout(grid, {7, 4}, {{Split::balanced(7, 3, 0), {"tp"}}}, {{"dp", Kind::copied}});
  EXPECT_EQ(layout.kind("tp"), Kind::split);
  EXPECT_EQ(layout.kind("dp"), Kind::copied);
  EXPECT_EQ(layout.axes(Kind::replicated), std::vector<std::string>{"cp"});
  EXPECT_EQ(layout.dual().kind("dp"), Kind::partial);
  EXPECT_EQ(layout.dual().dual(), layout);
  EXPECT_EQ(stored(layout).kind("dp"), Kind::replicated);
  EXPECT_EQ(layout.with_cut({Split::balanced(4, 2, 1), {"dp"}}).axes(Kind::split),
            (std::vector<std::string>{"dp", "tp"}));
  EXPECT_EQ(layout.shape_on(99), std::vector<int64_t>{0});
  EXPECT_EQ(layout.to_string(),
            "[7, 4] on {dp: 2, cp: 2, tp: 3}: dim 0 of 7 as 3, 2, 2 over tp; dp copied; cp replicated");
  EXPECT_EQ(Layout(GridShape({{"x", 2}}), {3}, {{Split::balanced(3, 2, 0), {"x"}}}).to_json(),
            R"({"shape":[3],"axes":[{"name":"x","size":2}],"ranks":[0,1],)"
            R"("cuts":[{"dim":0,"axes":["x"],"parts":[[[0,2]],[[2,3]]]}],"kinds":{}})");
  EXPECT_THROW(Layout(grid, {7}, {}, {{"tp", Kind::split}}), InvalidArgument);
  EXPECT_THROW(Layout(grid, {7}, {}, {{"xp", Kind::copied}}), InvalidArgument);
  EXPECT_THROW(Layout(grid, {7}, {{Split::balanced(7, 3, 0), {"tp"}}}, {{"tp", Kind::copied}}), InvalidArgument);
}

TEST(Kind, duals_swap_copied_and_partial) {
  EXPECT_EQ(dual(Kind::copied), Kind::partial);
  EXPECT_EQ(dual(Kind::partial), Kind::copied);
  EXPECT_EQ(dual(Kind::split), Kind::split);
  EXPECT_EQ(dual(Kind::replicated), Kind::replicated);
}

}  // namespace
}  // namespace adjoin
