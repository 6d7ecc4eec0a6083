#include "adjoin/partition/halo_plan.hpp"

#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

const GridShape kGrid({{"dp", 2}, {"y", 2}, {"x", 3}});
const Window kThree{.kernel = 3, .before = 1, .after = 1}, kAlone{};

Layout image() {
  return Layout(kGrid, {8, 9}, {{Split::balanced(8, 2, 0), {"y"}}, {Split::balanced(9, 3, 1), {"x"}}},
                {{"dp", Kind::copied}});
}

TEST(HaloPlan, fetches_neighbours_of_every_dim_and_corners) {
  const HaloPlan plan = plan_halo(image(), {kThree, kThree}, Padding::zeros);
  EXPECT_EQ(plan.outputs, image());
  const int middle = kGrid.cell_at({1, 0, 1});
  EXPECT_EQ(plan.fetched.ranges_of(middle), (std::vector<std::vector<Range>>{{{0, 5}}, {{2, 7}}}));
  EXPECT_EQ(plan.halos[0].pads[0], (Pads{1, 0}));
  EXPECT_EQ(plan.halos[1].pads[1], (Pads{0, 0}));
}

TEST(HaloPlan, keeps_what_the_tensor_is_along_axes_that_cut_nothing) {
  const HaloPlan plan = plan_halo(image(), {{.kernel = 2, .stride = 2}, kAlone}, Padding::zeros);
  EXPECT_EQ(plan.outputs.shape(), (std::vector<int64_t>{4, 9}));
  for (const Layout& layout : {plan.outputs, plan.fetched}) {
    EXPECT_EQ(layout.kind("dp"), Kind::copied);
    EXPECT_EQ(layout.kind("x"), Kind::split);
  }
}

TEST(HaloPlan, of_a_whole_dim_is_its_own_also_where_it_is_circular) {
  const Layout rows(kGrid, {8, 9}, {{Split::balanced(8, 2, 0), {"y"}}});
  const HaloPlan plan = plan_halo(rows, {kAlone, kThree}, Padding::circular);
  EXPECT_EQ(plan.fetched.ranges_of(0)[1], (std::vector<Range>{{0, 9}}));
  EXPECT_EQ(plan.halos[1].order[0], (std::vector<Places>{{8, 1, 1}, {0, 1, 9}, {0, 1, 1}}));
  EXPECT_EQ(plan.outputs, rows);
}

TEST(HaloPlan, leaves_a_dim_without_windows_as_it_is_cut) {
  const Split pieces = Split::of_ranges({{{4, 8}, {0, 2}}, {{2, 4}}}, 8, 0);
  const Layout rows(kGrid, {8, 9}, {{pieces, {"y"}}});
  const HaloPlan plan = plan_halo(rows, {kAlone, kThree}, Padding::zeros);
  EXPECT_EQ(plan.outputs.split(0), pieces);
  EXPECT_EQ(plan.fetched.split(0), pieces);
}

TEST(HaloPlan, of_given_outputs_lies_on_their_grid) {
  const GridShape line({{"y", 3}}, {4, 1, 0});
  const Layout outputs(line, {4, 9}, {{Split::at({0, 1, 3}, 4, 0), {"y"}}});
  const HaloPlan plan = plan_halo({8, 9}, outputs, {{.kernel = 2, .stride = 2}, kAlone}, Padding::zeros);
  EXPECT_EQ(plan.fetched.grid(), line);
  EXPECT_EQ(plan.fetched.ranges_of(1)[0], (std::vector<Range>{{2, 6}}));
  EXPECT_THROW(plan_halo({7, 9}, outputs, {{.kernel = 2, .stride = 2}, kAlone}, Padding::zeros), InvalidArgument);
}

TEST(HaloPlan, wants_a_window_for_each_dim) {
  EXPECT_THROW(plan_halo(image(), {kThree}, Padding::zeros), InvalidArgument);
}

}  // namespace
}  // namespace adjoin
