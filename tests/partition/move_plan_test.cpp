#include "adjoin/partition/move_plan.hpp"

#include <gtest/gtest.h>

#include <map>

#include "adjoin/base/error.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/sanitized.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

using Way = MoveKind::Way;

/// The global index of each element of a cell's piece, row-major.
std::vector<int64_t> elements_of(const Layout& layout, int cell) {
  std::vector<int64_t> elements{0};
  const auto ranges = layout.ranges_of(cell);
  for (size_t dim = 0; dim < ranges.size(); ++dim) {
    std::vector<int64_t> extended;
    for (const int64_t element : elements)
      for (const Range& range : ranges[dim])
        for (int64_t i = range.begin; i < range.end; ++i) extended.push_back(element * layout.shape()[dim] + i);
    elements = std::move(extended);
  }
  return elements;
}

/// Where the elements of a box lie within a piece of this shape.
std::vector<size_t> places_of(const Piece& piece, const std::vector<int64_t>& shape) {
  std::vector<size_t> places{0};
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<size_t> extended;
    for (const size_t place : places)
      for (int64_t i = 0; i < piece.sizes[dim]; ++i)
        extended.push_back(place * static_cast<size_t>(shape[dim]) + static_cast<size_t>(piece.offset[dim] + i));
    places = std::move(extended);
  }
  return places;
}

/// The coordinates of a cell on the axes that are copied or partial in both layouts.
std::map<std::string, int> staying_of(const Layout& layout, int cell, const Layout& other) {
  std::map<std::string, int> staying;
  const std::vector<int> coordinates = layout.grid().coordinates(cell);
  for (size_t i = 0; i < coordinates.size(); ++i) {
    const auto& axis = layout.grid().axes()[i];
    const auto& others = other.grid().axes();
    const Kind kind = layout.kind(axis.name);
    if ((kind == Kind::copied || kind == Kind::partial) &&
        std::find(others.begin(), others.end(), axis) != others.end() && other.kind(axis.name) == kind)
      staying[axis.name] = coordinates[i];
  }
  return staying;
}

TEST(MovePlan, takes_a_replica_of_its_own_before_others) {
  const GridShape grid({{"a", 2}, {"b", 3}});
  const Layout replicated(grid, {6, 6}), rows(grid, {6, 6}, {{Split::balanced(6, 2, 0), {"a"}}}),
      blocks(grid, {6, 6}, {{Split::balanced(6, 2, 0), {"a"}}, {Split::balanced(6, 3, 1), {"b"}}});
  for (const Layout& from : {replicated, rows})
    for (int rank = 0; rank < 6; ++rank)
      for (const Piece& piece : plan_move(from, blocks, rank).receives) EXPECT_EQ(piece.peer, rank) << from.to_string();
}

/// What `rank` sends and receives, played for all ranks of a world without any.
TEST(MovePlan, brings_every_element_to_whoever_wants_it_from_each_who_has_a_summand) {
  const LayoutLimits limits{.workers = 6, .max_dims = 3, .max_size = 7};
  for (uint64_t seed = 0; seed < (kIsSanitized ? 750 : 3000); ++seed) {
    const auto [from, to] = random_layouts(seed, limits);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + from.to_string() + " -> " + to.to_string());
    std::map<std::pair<int, int>, std::vector<const Piece*>> sent;
    std::vector<MovePlan> plans;
    for (int rank = 0; rank < limits.workers; ++rank) plans.push_back(plan_move(from, to, rank));
    for (int rank = 0; rank < limits.workers; ++rank)
      for (const Piece& piece : plans[static_cast<size_t>(rank)].sends) sent[{rank, piece.peer}].push_back(&piece);

    std::map<std::pair<int, int>, size_t> taken;
    for (int cell = 0; cell < to.grid().cells(); ++cell) {
      const int rank = to.grid().rank_of(cell);
      const std::vector<int64_t> wanted = elements_of(to, cell);
      std::vector<std::vector<int>> came(wanted.size());  // the cells of `from` from which each element came
      for (const Piece& piece : plans[static_cast<size_t>(rank)].receives) {
        auto& next = taken[{piece.peer, rank}];
        const auto& queue = sent[{piece.peer, rank}];
        ASSERT_LT(next, queue.size());
        const Piece& other = *queue[next++];
        ASSERT_EQ(other.sizes, piece.sizes);
        ASSERT_EQ(other.summand, piece.summand);
        const int source = from.grid().cell_of(piece.peer).value();
        const std::vector<int64_t> held = elements_of(from, source);
        const auto places = places_of(piece, to.shape_of(cell)), places_there = places_of(other, from.shape_of(source));
        for (size_t i = 0; i < places.size(); ++i) {
          ASSERT_EQ(held[places_there[i]], wanted[places[i]]);
          came[places[i]].push_back(source);
        }
      }
      // Each summand of each place in `from` that holds the element came once, from one of its replicas.
      std::map<int64_t, std::map<std::vector<int>, int>>
          holders;  // element -> parts and summand -> how often a cell has it
      for (int source = 0; source < from.grid().cells(); ++source) {
        if (staying_of(from, source, to) != staying_of(to, cell, from)) continue;
        std::vector<int> key = from.parts_of(source);
        for (const std::string& axis : from.axes(Kind::partial))
          key.push_back(from.grid().coordinates(source)[static_cast<size_t>(from.grid().axis_index(axis))]);
        std::map<int64_t, int> times;
        for (const int64_t element : elements_of(from, source)) ++times[element];
        for (const auto& [element, n] : times) holders[element][key] = n;
      }
      for (size_t i = 0; i < wanted.size(); ++i) {
        std::map<std::vector<int>, int> keys;
        for (const int source : came[i]) {
          std::vector<int> key = from.parts_of(source);
          for (const std::string& axis : from.axes(Kind::partial))
            key.push_back(from.grid().coordinates(source)[static_cast<size_t>(from.grid().axis_index(axis))]);
          ++keys[key];
        }
        ASSERT_EQ(keys, holders[wanted[i]]);
      }
    }
    for (const auto& [pair, pieces] : sent) ASSERT_EQ(taken[pair], pieces.size());
  }
}

TEST(MovePlan, takes_what_is_here_already_from_here) {
  const GridShape grid({{"a", 2}, {"b", 2}});
  const Layout rows(grid, {8, 4}, {{Split::balanced(8, 2, 0), {"a"}}});
  const Layout blocks(grid, {8, 4}, {{Split::balanced(8, 2, 0), {"a"}}, {Split::balanced(4, 2, 1), {"b"}}});
  for (int rank = 0; rank < 4; ++rank)
    for (const Piece& piece : plan_move(rows, blocks, rank).receives) EXPECT_EQ(piece.peer, rank);
}

TEST(MovePlan, of_a_million_workers_match_their_peers) {
  const GridShape grid({{"a", 1000}, {"b", 1000}});
  const std::vector<int64_t> shape{12'345, 6'789};
  const Layout rows(grid, shape, {{Split::balanced(shape[0], 1'000'000, 0), {"a", "b"}}});
  const Layout blocks(grid, shape,
                      {{Split::balanced(shape[0], 1000, 0), {"a"}}, {Split::balanced(shape[1], 1000, 1), {"b"}}});
  const Layout turned(grid, shape,
                      {{Split::balanced(shape[0], 1000, 0, 7), {"b"}}, {Split::balanced(shape[1], 1000, 1), {"a"}}});
  std::mt19937 random(1);
  for (const auto& [from, to] : {std::pair(blocks, turned), std::pair(rows, blocks), std::pair(turned, rows)})
    for (int n = 0; n < 334; ++n) {
      const int rank = static_cast<int>(random() % 1'000'000);
      const MovePlan plan = plan_move(from, to, rank);
      int64_t received = 0, wanted = 1;
      for (const Piece& piece : plan.receives) received += piece.sizes[0] * piece.sizes[1];
      for (const int64_t size : to.shape_of(rank)) wanted *= size;
      ASSERT_EQ(received, wanted);
      if (plan.receives.empty()) continue;
      const Piece& piece = plan.receives[random() % plan.receives.size()];
      const MovePlan theirs = plan_move(from, to, piece.peer);
      ASSERT_EQ(1, std::count_if(theirs.sends.begin(), theirs.sends.end(),
                                 [&](const Piece& p) { return p.peer == rank && p.sizes == piece.sizes; }));
    }
}

TEST(MoveKind, tells_the_collectives_from_other_moves) {
  const GridShape grid({{"a", 2}, {"b", 3}});
  const Layout::Cut rows{Split::balanced(7, 2, 0), {"a"}}, columns{Split::balanced(5, 2, 1), {"a"}};
  const Layout whole(grid, {7, 5}), cut(grid, {7, 5}, {rows}), other(grid, {7, 5}, {columns});
  const Layout copied(grid, {7, 5}, {}, {{"a", Kind::copied}}), partial(grid, {7, 5}, {}, {{"a", Kind::partial}});
  const auto way = [](const Layout& from, const Layout& to) { return kind_of_move(from, to).way; };
  EXPECT_EQ(way(whole, copied), Way::local);         // copy_to
  EXPECT_EQ(way(whole, cut), Way::local);            // scatter_to
  EXPECT_EQ(way(partial, whole), Way::all_reduce);   // reduce_from
  EXPECT_EQ(way(partial, copied), Way::all_reduce);  // all_sum_reduce
  EXPECT_EQ(way(partial, partial), Way::local);
  EXPECT_EQ(way(cut, whole), Way::all_gather);
  EXPECT_EQ(way(cut, copied), Way::all_gather);
  EXPECT_EQ(way(partial, cut), Way::reduce_scatter);
  EXPECT_EQ(way(cut, other), Way::exchange);
  EXPECT_EQ(kind_of_move(partial, cut).axes, std::vector<std::string>{"a"});
  // What each can take of its own comes first, and the collective then moves less.
  const Layout both = cut.with_cut({Split::balanced(5, 3, 1), {"b"}});
  EXPECT_EQ(kind_of_move(partial, both).way, Way::reduce_scatter);
  EXPECT_EQ(kind_of_move(partial, both).taken, std::vector<int64_t>{1});
  // Ghosts that a worker has already are taken too; another grid, or two sums at once, is an exchange.
  const Layout ghosts(grid, {7, 5}, {{Split::covering({{{0, 5}}, {{2, 7}}}, 7, 0), {"a"}}});
  EXPECT_EQ(way(whole, ghosts), Way::local);
  EXPECT_EQ(way(ghosts, whole), Way::exchange);
  EXPECT_EQ(way(cut, Layout(GridShape({{"a", 2}}), {7, 5}, {rows})), Way::exchange);
  EXPECT_EQ(way(partial.with_kind("b", Kind::partial), cut), Way::exchange);
}

TEST(MovePlan, refuses_kinds_and_shapes_that_cannot_be_moved) {
  const GridShape grid({{"a", 2}}), larger({{"a", 4}});
  const Layout whole(grid, {7}), copied(grid, {7}, {}, {{"a", Kind::copied}}),
      partial(grid, {7}, {}, {{"a", Kind::partial}});
  const Layout ghosts(grid, {7}, {{Split::covering({{{0, 5}}, {{2, 7}}}, 7, 0), {"a"}}});
  EXPECT_THROW(plan_move(copied, whole, 0), InvalidArgument);
  EXPECT_THROW(plan_move(whole, partial, 0), InvalidArgument);
  EXPECT_THROW(plan_move(copied, partial, 0), InvalidArgument);
  EXPECT_THROW(plan_move(copied, Layout(larger, {7}, {}, {{"a", Kind::copied}}), 0), InvalidArgument);
  EXPECT_THROW(plan_move(whole, Layout(grid, {8}), 0), InvalidArgument);
  EXPECT_THROW(plan_move(ghosts, ghosts, 0), InvalidArgument);
  EXPECT_NO_THROW(plan_move(copied, copied, 0));
}

}  // namespace
}  // namespace adjoin
