#include "adjoin/movement/move.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/pieces.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

/// Whether a cell of `from` and one of `to` have the same coordinates on the axes that stay copied or partial.
bool mix(const Layout& from, int source, const Layout& to, int target) {
  for (const auto& axis : from.grid().axes()) {
    const auto& others = to.grid().axes();
    const Kind kind = from.kind(axis.name);
    if ((kind != Kind::copied && kind != Kind::partial) ||
        std::find(others.begin(), others.end(), axis) == others.end() || to.kind(axis.name) != kind)
      continue;
    const auto at = [&](const Layout& layout, int cell) {
      return layout.grid().coordinates(cell)[static_cast<size_t>(layout.grid().axis_index(axis.name))];
    };
    if (at(from, source) != at(to, target)) return false;
  }
  return true;
}

/// What a cell of `to` shall get, from all cells of `from`.
at::Tensor expected_piece(const Layout& from, const Layout& to, int target, int64_t seed) {
  const at::Tensor global = at::zeros(from.shape(), at::kDouble);
  for (int source = 0; source < from.grid().cells(); ++source) {
    bool is_replica = false;
    for (const std::string& axis : from.axes(Kind::replicated))
      is_replica =
          is_replica || from.grid().coordinates(source)[static_cast<size_t>(from.grid().axis_index(axis))] != 0;
    if (!is_replica && mix(from, source, to, target)) add_piece(global, from, source, random_piece(from, source, seed));
  }
  return piece_of(global, to, target);
}

void check_move(const Layout& from, const Layout& to, const Grid& grid) {
  const Communicator& world = grid.world();
  const Move forward(from, to, grid);
  const at::Tensor x = random_piece_here(from, world, 1).requires_grad_(true);
  const at::Tensor fx = forward(x);
  const auto cell = to.grid().cell_of(world.rank());
  EXPECT_EQ(fx.sizes(), at::IntArrayRef(to.shape_on(world.rank())));
  if (cell) {
    EXPECT_TRUE(at::allclose(fx, expected_piece(from, to, *cell, 1), 1e-12, 1e-12));
  }
  const Layout from_dual = from.dual(), to_dual = to.dual();
  const at::Tensor y = random_piece_here(to_dual, world, 2).requires_grad_(true);
  const bool takes_part = fx.requires_grad();
  at::Tensor fy = at::zeros_like(x);
  if (takes_part) fy = torch::autograd::grad({fx}, {x}, {y}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  ASSERT_EQ(fy.sizes(), x.sizes());
  const auto norm = [&](const at::Tensor& t, const Layout& layout) {
    return std::sqrt(inner_product(t, t, layout, world));
  };
  const double scale = std::max(norm(fx, to) * norm(y, to_dual), norm(x, from) * norm(fy, from_dual));
  EXPECT_NEAR(inner_product(fx, y, to, world), inner_product(x, fy, from, world), 1e-12 * scale + 1e-300);
  const at::Tensor z = random_piece_here(from, world, 3);
  const at::Tensor fz = forward(z);
  if (takes_part) {
    const at::Tensor twice = torch::autograd::grad({fy}, {y}, {z})[0];
    EXPECT_TRUE(at::allclose(twice, fz, 1e-12, 1e-12)) << "the adjoint of the adjoint is another map";
  }
}

/// ADJOIN_SEED=n tries that pair alone.
TEST(Move, between_random_layouts_moves_what_the_global_tensor_says_and_has_its_adjoint) {
  const char* only = std::getenv("ADJOIN_SEED");
  for_each_world({6}, [&](const Communicator& world) {
    const uint64_t first = only ? std::strtoull(only, nullptr, 10) : 0;
    const uint64_t pairs = only ? 1 : started_by_mpi() ? 200 : kIsSanitized ? 500 : 2000;
    std::optional<Grid> grid;
    for (uint64_t seed = first; seed < first + pairs; ++seed) {
      if (seed % 16 == 0 || !grid) grid.emplace(world, std::vector<GridShape::Axis>{{"world", world.size()}});
      const auto [from, to] = random_layouts(seed, {.workers = world.size()});
      SCOPED_TRACE("ADJOIN_SEED=" + std::to_string(seed) + ": " + from.to_string() + " -> " + to.to_string());
      check_move(from, to, *grid);
      if (::testing::Test::HasFailure()) return;
    }
  });
}

TEST(Move, equals_the_named_movements_that_are_its_cases) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const std::vector<int64_t> shape{5, 7};
    const Split split = Split::balanced(7, world.size(), 1);
    const Layout whole(grid.shape(), shape), cut(grid.shape(), shape, {{split, {"w"}}});
    const auto of_kind = [&](Kind kind) { return Layout(grid.shape(), shape, {}, {{"w", kind}}); };
    const Communicator& group = grid.axis("w");
    const auto x_of = [&](const Layout& layout) { return random_piece_here(layout, world, 1); };
    const Layout partial = of_kind(Kind::partial), copied = of_kind(Kind::copied);
    const auto same = [&](const at::Tensor& a, const at::Tensor& b) { EXPECT_TRUE(a.equal(b)); };
    same(move(x_of(whole), whole, copied, grid), copy_to(x_of(whole), group));
    same(move(x_of(partial), partial, whole, grid), reduce_from(x_of(partial), group));
    same(move(x_of(partial), partial, copied, grid), all_sum_reduce(x_of(partial), group));
    same(move(x_of(cut), cut, whole, grid), gather_from(x_of(cut), group, split));
    same(move(x_of(whole), whole, cut, grid), scatter_to(x_of(whole), group, split));
    same(move(x_of(cut), cut, copied, grid), all_gather(x_of(cut), group, split));
    same(move(x_of(partial), partial, cut, grid), reduce_scatter(x_of(partial), group, split));
  });
}

TEST(Move, takes_every_element_type_and_strided_tensors) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const std::vector<int64_t> shape{6, 5};
    const Layout rows(grid.shape(), shape, {{Split::balanced(6, world.size(), 0), {"w"}}});
    const Layout columns(grid.shape(), shape, {{Split::balanced(5, world.size(), 1), {"w"}}});
    const at::Tensor numbers = at::arange(30).view(shape) % 2;
    for (const auto type : {at::kBool, at::kByte, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat,
                            at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
      const at::Tensor global = numbers.to(type);
      for (const Layout& layout : {columns, Layout(grid.shape(), shape)}) {
        const at::Tensor x = piece_of(global, rows, world.rank());
        EXPECT_TRUE(move(x, rows, layout, grid).equal(piece_of(global, layout, world.rank()))) << c10::toString(type);
        const at::Tensor strided = x.t().contiguous().t();
        EXPECT_TRUE(move(strided, rows, layout, grid).equal(piece_of(global, layout, world.rank())));
      }
    }
    const at::Tensor z = at::view_as_complex(random_tensor({rows.shape_of(world.rank())[0], 5, 2}, Kind::split, world))
                             .requires_grad_(true);
    at::real(move(z, rows, columns, grid) * c10::complex<double>(0, 2)).sum().backward();
    EXPECT_TRUE(at::allclose(z.grad(), at::full_like(z, c10::complex<double>(0, -2))));
    const at::Tensor expanded = at::ones({1, 5}).expand({rows.shape_of(world.rank())[0], 5});
    EXPECT_TRUE(move(expanded, rows, columns, grid).equal(at::ones(columns.shape_of(world.rank()))));
  });
}

TEST(Move, gives_a_worker_that_holds_nothing_a_gradient_of_the_shape_that_it_gave) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    const Grid grid(world, {{"w", world.size()}});
    const Layout one(GridShape({{"o", 1}}, {0}), {3}), all(grid.shape(), {3}, {}, {{"w", Kind::copied}});
    for (const auto type : {at::kDouble, at::kComplexDouble})
      for (const std::vector<int64_t>& nothing : {std::vector<int64_t>{0}, {0, 3}}) {
        const at::Tensor x = at::zeros(world.rank() == 0 ? std::vector<int64_t>{3} : nothing, type);
        x.requires_grad_(true);
        at::real(move(x, one, all, grid)).sum().backward();
        EXPECT_TRUE(x.grad().equal(at::full_like(x, world.size()))) << c10::toString(type);
      }
  });
}

TEST(Move, sums_16_bit_floats_in_float32_and_rounds_once) {
  for_each_world({3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const Layout partial(grid.shape(), {3}, {}, {{"w", Kind::partial}});
    const Layout one(GridShape({{"o", 1}}, {world.size() - 1}), {3});
    // 256 + 1 + 1 is 258 in float32, but 256 where each sum is rounded to bfloat16.
    const at::Tensor x = at::full({3}, world.rank() == 0 ? 256 : 1, at::kBFloat16);
    const at::Tensor y = move(x, partial, one, grid);
    if (one.grid().cell_of(world.rank())) {
      EXPECT_EQ(y[0].item<float>(),
                static_cast<float>(at::scalar_tensor(255 + world.size()).to(at::kBFloat16).item<float>()));
    }
  });
}

TEST(Move, prepared_keeps_no_memory_from_one_use_to_the_next) {
  for_each_world({2, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"w", world.size()}});
    const Layout rows(grid.shape(), {64, 64}, {{Split::balanced(64, world.size(), 0), {"w"}}});
    const Layout columns(grid.shape(), {64, 64}, {{Split::balanced(64, world.size(), 1), {"w"}}});
    const Layout partial(grid.shape(), {64, 64}, {}, {{"w", Kind::partial}}), whole(grid.shape(), {64, 64});
    for (const auto& [from, to] : {std::pair(rows, columns), std::pair(columns, whole), std::pair(partial, columns),
                                   std::pair(partial, Layout(GridShape({{"o", 1}}), {64, 64}))}) {
      const Move prepared(from, to, grid);
      const at::Tensor x = random_piece_here(from, world, 1);
      const PeakMemory memory;
      const at::Tensor y = prepared(x);
      EXPECT_LE(memory.current_bytes(), static_cast<int64_t>(y.nbytes()))
          << from.to_string() << " -> " << to.to_string();
    }
  });
}

TEST(Broadcast, copies_along_new_axes_and_its_adjoint_sums) {
  for_each_world({4}, [](const Communicator& world) {
    if (world.size() != 4) return;
    const Grid grid(world, {{"r", 2}, {"c", 2}});
    const Layout column(GridShape({{"r", 2}, {"c", 1}}, {3, 1}), {4, 3}, {{Split::balanced(4, 2, 0), {"r"}}});
    const at::Tensor x = random_piece_here(column, world, 1).requires_grad_(true);
    const at::Tensor y = broadcast(x, column, grid.shape(), grid);
    EXPECT_TRUE(y.equal(random_piece(column, grid.coordinate("r"), 1)));
    (y * (1 + grid.coordinate("c"))).sum().backward();
    EXPECT_TRUE(x.grad().equal(at::full_like(x, 3)));
    const at::Tensor sum = sum_reduce(y.detach(), grid.shape(), column, grid);
    EXPECT_TRUE(sum.equal(2 * x.detach()));
  });
}

TEST(Move, names_the_worker_whose_tensor_is_not_as_its_layout_says) {
  for_each_world({3}, [](const Communicator& world) {
    if (world.size() != 3 || started_by_mpi()) return;
    const Grid grid(world, {{"w", 3}});
    const Layout rows(grid.shape(), {7}, {{Split::balanced(7, 3, 0), {"w"}}});
    EXPECT_THROW(move(at::ones({9}), rows, Layout(grid.shape(), {7}), grid), InvalidArgument);
  });
  const std::string message = failure_of<InvalidArgument>(3, [](const Communicator& world) {
    const Grid grid(world, {{"w", 3}});
    const Layout rows(grid.shape(), {7}, {{Split::balanced(7, 3, 0), {"w"}}});
    const Layout last(GridShape({{"o", 1}}, {2}), {7});
    move(at::ones({world.rank() == 1 ? 3 : rows.shape_of(world.rank())[0]}), rows, last, grid);
  });
  EXPECT_NE(message.find("rank 1: expected a tensor of shape [2], got [3]"), std::string::npos) << message;
}

TEST(AllToAll, cuts_along_another_dim_and_is_its_own_adjoint_the_other_way_round) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Split rows = Split::balanced(7, world.size(), 0), columns = Split::balanced(5, world.size(), 1);
    const at::Tensor whole = at::arange(70, at::kDouble).view({7, 5, 2});
    const auto mine = [&](const Split& split) { return take_block(whole, split, world.rank()); };
    EXPECT_TRUE(all_to_all(mine(rows), world, rows, columns).equal(mine(columns)));
    const at::Tensor x = mine(columns).clone().requires_grad_();
    const at::Tensor y = all_to_all(x, world, columns, rows);
    (y * mine(rows)).sum().backward();
    EXPECT_TRUE(y.equal(mine(rows)));
    EXPECT_TRUE(x.grad().equal(x));
  });
}

TEST(Move, in_checked_mode_names_the_worker_whose_requires_grad_differs) {
  const auto differ = [](const Communicator& world) {
    const Grid grid(world, {{"w", 3}});
    const Layout whole(grid.shape(), {7}), copied(grid.shape(), {7}, {}, {{"w", Kind::copied}});
    move(at::ones({7}).requires_grad_(world.rank() != 1), whole, copied, grid);
  };
  const std::string message = failure_of<InvalidArgument>(3, differ, {.checked = true});
  EXPECT_NE(message.find("it does on ranks 0, 2 of the group, but not on rank 1"), std::string::npos) << message;
}

TEST(Move, adds_summands_in_the_order_of_ranks_where_several_come) {
  for_each_world({3}, [](const Communicator& world) {
    if (world.size() != 3) return;
    const Grid grid(world, {{"w", 3}});
    const Layout partial(grid.shape(), {3}, {}, {{"w", Kind::partial}});
    for (int rank = 0; rank < 3; ++rank) {
      const Layout one(GridShape({{"one", 1}}, {rank}), {3});
      const double summands[] = {1e16, -1e16, 1};  // in another order their sum is 0
      const at::Tensor y = move(at::full({3}, summands[world.rank()], at::kDouble), partial, one, grid);
      if (world.rank() == rank) {
        EXPECT_TRUE(y.equal(at::ones({3}, at::kDouble))) << y;
      }
    }
  });
}

}  // namespace
}  // namespace adjoin
