// Movements of tensors whose memory is not what their values are, and derivatives in forward mode.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/halo.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/move.hpp"
#include "adjoin/movement/one_worker.hpp"
#include "adjoin/movement/point_to_point.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/forward_mode.hpp"
#include "tests/support/odd_memory.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  std::vector<int64_t> shape;  // of this rank's x
  Movement movement;
};

/// Every movement, on drawn sizes, which may be 0.
std::vector<Case> cases_of(Numbers& draw, const Communicator& world) {
  const int64_t rows = draw.from(0, 7), columns = draw.from(0, 4);
  const Split split = random_split(draw.seed(), rows, world.size(), 0);
  const std::vector<int64_t> whole{rows, columns}, block{split.size(world.rank()), columns};
  const int root = static_cast<int>(draw.from(0, world.size() - 1));
  using Tensor = const at::Tensor&;
  std::vector<Case> cases{
      {"copy_to", whole, [=](Tensor x) { return copy_to(x, world); }},
      {"reduce_from", whole, [=](Tensor x) { return reduce_from(x, world); }},
      {"all_sum_reduce", whole, [=](Tensor x) { return all_sum_reduce(x, world); }},
      {"gather_from", block, [=](Tensor x) { return gather_from(x, world, split); }},
      {"scatter_to", whole, [=](Tensor x) { return scatter_to(x, world, split); }},
      {"all_gather", block, [=](Tensor x) { return all_gather(x, world, split); }},
      {"reduce_scatter", whole, [=](Tensor x) { return reduce_scatter(x, world, split); }},
      {"gather", block, [=](Tensor x) { return gather(x, world, split, root); }},
      {"scatter", world.rank() == root ? whole : std::vector<int64_t>{0},
       [=](Tensor x) { return scatter(x, whole, world, split, root); }},
      {"rotate", whole, [=](Tensor x) { return rotate(x, world, 1); }},
  };
  const std::vector<int64_t> counts(static_cast<size_t>(world.size()), columns);
  cases.push_back(
      {"all_to_all", {columns * world.size(), 2}, [=](Tensor x) { return all_to_all(x, counts, counts, world); }});
  if (world.size() > 1)  // rank 0 sends to rank 1; the others do nothing
    cases.push_back(
        {"send and recv", world.rank() == 0 ? whole : std::vector<int64_t>{0}, [=](Tensor x) {
           return world.rank() == 0 ? send(x, 1, world) : world.rank() == 1 ? recv(x, whole, 0, world) : x.clone();
         }});
  const auto [from, to] = random_layouts(draw.seed(), {.workers = world.size(), .max_dims = 3, .max_size = 5});
  const Grid grid(world, {{"ranks", world.size()}});
  cases.push_back({"move", from.shape_on(world.rank()),
                   [from = from, to = to, grid](Tensor x) { return move(x, from, to, grid); }});
  const Layout cut(grid.shape(), {rows + 3, columns}, {{Split::balanced(rows + 3, world.size(), 0), {"ranks"}}});
  cases.push_back({"halo_exchange", cut.shape_on(world.rank()), [=](Tensor x) {
                     const Window window{.kernel = 3, .before = 1, .after = 1};
                     return halo_exchange(x, cut, {window, Window{}}, Padding::zeros, grid);
                   }});
  return cases;
}

at::Tensor random_numbers(at::IntArrayRef shape, at::ScalarType type, const Communicator& world, int64_t seed) {
  const auto reals = [&](int64_t s) { return random_tensor(shape, Kind::split, world, s); };
  return (c10::isComplexType(type) ? at::complex(reals(seed), reals(seed + 1)) : reals(seed)).to(type);
}

TEST(OddMemory, moves_as_any_other_memory_forward_backward_and_in_forward_mode) {
  const ForwardMode mode;
  for_each_world({1, 2, 3}, [&](const Communicator& world) {
    for (uint64_t seed = 0; seed < 6 * static_cast<uint64_t>(test::scale()); ++seed) {
      Numbers draw(seed), odd(seed * 100 + static_cast<uint64_t>(world.rank()));
      const at::ScalarType type = std::array{at::kDouble, at::kFloat, at::kComplexDouble,
                                             at::kComplexFloat}[static_cast<size_t>(draw.from(0, 3))];
      for (const Case& one : cases_of(draw, world)) {
        SCOPED_TRACE(std::string(one.name) + " of " + c10::toString(type) + ", seed " + std::to_string(seed));
        const at::Tensor x = random_numbers(one.shape, type, world, 1), t = random_numbers(one.shape, type, world, 3);
        const at::Tensor leaf = x.clone().requires_grad_(true), y = one.movement(leaf);
        const at::Tensor dy = random_numbers(y.sizes(), type, world, 5);
        const at::Tensor dx = torch::autograd::grad({y}, {leaf}, {dy})[0];

        const at::Tensor odd_leaf = in_odd_memory(x, odd).detach().requires_grad_(true);
        const at::Tensor odd_y = one.movement(odd_leaf);
        EXPECT_TRUE(odd_y.detach().equal(y.detach()));
        EXPECT_TRUE(torch::autograd::grad({odd_y}, {odd_leaf}, {in_odd_memory(dy, odd)})[0].equal(dx));

        const at::Tensor tangent = one.movement(t);
        for (const bool requires_grad : {false, true}) {
          const at::Tensor dual =
              with_tangent(in_odd_memory(x, odd).detach().requires_grad_(requires_grad), in_odd_memory(t, odd));
          const at::Tensor moved = one.movement(dual);
          ASSERT_TRUE(tangent_of(moved).defined());
          EXPECT_TRUE(tangent_of(moved).detach().equal(tangent));
          EXPECT_TRUE(moved.detach().equal(y.detach()));
          EXPECT_EQ(moved.requires_grad(), requires_grad);
        }
      }
    }
  });
}

TEST(OddMemory, that_nobody_can_read_is_refused_by_name) {
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    Numbers draw(3);
    for (const at::ScalarType type : {at::kFloat, at::kComplexDouble})
      for (const Case& one : cases_of(draw, world)) {
        if (std::string(one.name) == "move" || std::string(one.name) == "send and recv") continue;  // may move nothing
        for (const auto& [text, x] : without_plain_memory(random_numbers(one.shape, type, world, 1))) try {
            one.movement(x);
            ADD_FAILURE() << one.name << " took " << text;
          } catch (const InvalidArgument& error) {
            EXPECT_THAT(error.what(), HasSubstr("expected a dense tensor")) << one.name << " of " << text;
          }
      }
  });
}

TEST(Sum, is_that_of_the_values_of_any_memory_and_has_no_derivatives) {
  const ForwardMode mode;
  for_each_world({2, 3}, [](const Communicator& world) {
    if (world.size() < 2) return;
    Numbers odd(static_cast<uint64_t>(world.rank()));
    for (const at::ScalarType type : {at::kDouble, at::kComplexDouble, at::kComplexFloat, at::kLong}) {
      const at::Tensor x = at::arange(6, at::kDouble).view({2, 3}).to(type) * (world.rank() + 1);
      const at::Tensor expected =
          at::arange(6, at::kDouble).view({2, 3}).to(type) * (world.size() * (world.size() + 1) / 2);
      for (int trial = 0; trial < 8; ++trial) EXPECT_TRUE(sum(in_odd_memory(x, odd), world).equal(expected));
    }
    const at::Tensor x = at::ones({3}, at::kDouble).requires_grad_(true);
    const at::Tensor y = sum(with_tangent(x, at::ones({3}, at::kDouble)), world);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_FALSE(tangent_of(y).defined());
  });
}

TEST(Movement, in_checked_mode_refuses_a_derivative_in_forward_mode_on_some_workers_only) {
  const ForwardMode mode;
  for_each_checked_world({2}, [](const Communicator& world) {
    if (world.size() < 2 || !world.checked()) return;
    const at::Tensor x = at::ones({3}, at::kDouble);
    try {
      all_sum_reduce(with_tangent(x, world.rank() == 0 ? x : at::Tensor()), world);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("have a forward-mode derivative on all workers that take part or on none"));
    }
  });
}

TEST(HaloExchange, fills_margins_with_a_constant_that_has_no_derivative) {
  const ForwardMode mode;
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"ranks", world.size()}});
    const Layout cut(grid.shape(), {6}, {{Split::balanced(6, world.size(), 0), {"ranks"}}});
    const HaloPlan plan = plan_halo(cut, {Window{.kernel = 3, .before = 1, .after = 1}}, Padding::zeros);
    const HaloExchange exchange(cut, plan, grid, /*fill=*/-7);
    const at::Tensor x = random_tensor(cut.shape_on(world.rank()), Kind::split, world).requires_grad_(true);
    const at::Tensor y = exchange(with_tangent(x, at::ones_like(x)));
    const at::Tensor margin = y.detach() == -7;
    EXPECT_EQ(margin.sum().item<int64_t>(), (world.rank() == 0) + (world.rank() == world.size() - 1));
    EXPECT_TRUE(tangent_of(y).detach().equal(margin.logical_not().to(at::kDouble)));
    // The second derivative of a linear map's adjoint is the map, without the constant.
    const at::Tensor weights = at::ones_like(y.detach()).requires_grad_(true);
    const at::Tensor dx = torch::autograd::grad({exchange(x)}, {x}, {weights}, true, /*create_graph=*/true)[0];
    const at::Tensor back = torch::autograd::grad({dx}, {weights}, {at::ones_like(dx)})[0];
    EXPECT_TRUE(back.equal(margin.logical_not().to(at::kDouble)));
  });
}

TEST(Buffer, is_refused_for_memory_that_does_not_contain_the_values) {
  const at::Tensor x = at::ones({4}, at::kDouble);
  EXPECT_THROW(buffer(at::_neg_view(x)), InvalidArgument);
  EXPECT_THROW(buffer(at::complex(x, x).conj()), InvalidArgument);
  EXPECT_THROW(buffer(at::_efficientzerotensor({4}, at::kDouble)), InvalidArgument);
  EXPECT_TRUE(plain("test", at::_efficientzerotensor({4}, at::kDouble)).equal(at::zeros({4}, at::kDouble)));
  EXPECT_TRUE(plain("test", x).is_same(x));
}

}  // namespace
}  // namespace adjoin
